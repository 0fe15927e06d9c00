"""The shallow tensor network: a sum of products."""

from typing import Any

import torch
from torch import Tensor, nn

from engram.nn._tensor_net import TensorNet


class CPNet(TensorNet):
    r"""The shallow network: the coefficient tensor is a sum of R products.

    .. math:: h_y = \sum_{\alpha=1}^R \prod_{k=1}^d \langle v_{k,\alpha,y}, f(x_k) \rangle

    Args:
        input_size (int): n, how many numbers an input (a patch) has.
        rank (int): r, the rank of the tensor: the width of the network.
        output_size (int): Y, the classes.
        steps (int): d, the number of inputs, at least 2.
        features (int): m, how many numbers f(x) has; 0 takes the inputs as they are. Default: 4.
        activation (str): sigma of f: ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``relu``.
        rescale (bool): divide the scores of each example by a positive number, so that long products neither overflow
            nor vanish; the arg max is the same, and :meth:`scores` gives the number's logarithm. Default: False.
        batch_first (bool): input is ``(B, d, n)`` in place of ``(d, B, n)``. Default: False.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Input ``(d, B, n)``; output ``(B, Y)``.

    To imitate almost any tensor-train network of rank r it needs a width of at least min(m, r)^(d/2)
    (``engram certify tt``). Parameters: ``vectors`` ``(d, m, Y, R)``. Source: Khrulkov et al.
    (2018); Alkin (2024), Chapter 4, Eqs. 4.1 and 4.2.
    """

    source = "Khrulkov et al. 2018 (CP)"
    tensor = "W_y = sum_a v_1a o ... o v_da"
    count = "Y d m N"
    step_cost = "O(Y m N)"

    def _make(self, empty: Any) -> None:
        self.vectors = empty(self.steps, self.features, self.output_size, self.rank)

    def _initialise(self) -> None:
        """v = 1/m + N(0, 1/(4 m)), and N(0, 1/(m R)) for the first input: products near one, scores about one."""
        nn.init.normal_(self.vectors, mean=1 / self.features, std=0.5 / self.features)
        nn.init.normal_(self.vectors[0], std=(self.features * self.rank) ** -0.5)

    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        factors = torch.einsum("dbi,diyr->dbyr", features, self.vectors)
        if not self.rescale:
            return factors.prod(0).sum(-1), features.new_zeros(features.shape[1])
        logs = factors.abs().clamp_min(torch.finfo(factors.dtype).tiny).log().sum(0)  # (B, Y, R)
        scale = logs.detach().flatten(1).amax(1)
        return (factors.sign().prod(0) * (logs - scale[:, None, None]).exp()).sum(-1), scale

    def coefficients(self) -> Tensor:
        whole = self.vectors[0].permute(1, 2, 0)
        for vectors in self.vectors[1:]:
            whole = torch.einsum("yr...,iyr->yr...i", whole, vectors)
        return whole.sum(1)
