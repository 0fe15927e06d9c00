"""Tensor-train networks, with cores of their own or one for all inner inputs."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from engram.errors import OptionError, ShapeError
from engram.nn._bilinear import bilinear_last
from engram.nn._rac import RAC
from engram.nn._tensor_net import TensorNet
from engram.nn._unit import unit_rms


class TensorTrainNet(TensorNet):
    r"""A tensor-train network: the coefficient tensor is a train of cores, run like a recurrence without activation.

    .. math:: s_1 = f(x_1) G_1, \quad s_k^\beta = \sum_{\alpha i} s_{k-1}^\alpha G_k^{\alpha i \beta} f_i(x_k), \quad
        h_y = \sum_{\alpha i} s_{d-1}^\alpha G_d^{\alpha i y} f_i(x_d)

    With ``equal_cores`` the inner cores are one, a bilinear recurrent network; an arithmetic circuit of one layer is
    such a train (:meth:`from_circuit`).

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
        equal_cores (bool): one core for all inner inputs, G_2 = ... = G_{d-1}. Default: False.
        own_cores (bool): cores of its own for each class; False: classes share all cores but the last. Default: False.

    Input ``(d, B, n)``; output ``(B, Y)``.

    Parameters: ``first`` ``(g, m, r)``, ``inner`` ``(g, d-2 or 1, r, m, r)``, ``last`` ``(g, r, m, Y/g)``; g = Y with
    ``own_cores``, else 1. Cost: O(d m r^2) per example.

    Source: Khrulkov et al. (2018); Alkin (2024), Chapter 4, Eqs. 4.1 and 4.3; equal cores, Theorem 1 there.
    """

    source = "Khrulkov et al. 2018"
    tensor = "W_y = G_1 G_2 ... G_d"
    count = "m N + (d-2) m N^2 + m N Y"
    step_cost = "O(m N^2)"

    def _make(self, empty: Any, equal_cores: bool = False, own_cores: bool = False) -> None:
        self.equal_cores, self.own_cores = equal_cores, own_cores
        groups, r, m = self.output_size if own_cores else 1, self.rank, self.features
        self.first = empty(groups, m, r)
        self.inner = empty(groups, min(1, self.steps - 2) if equal_cores else self.steps - 2, r, m, r)
        self.last = empty(groups, r, m, self.output_size // groups)

    def _initialise(self) -> None:
        """G^{:i:} = I/m + N(0, 1/(4 r m)), so that a product of many is near one; the ends N(0, 1/m)."""
        nn.init.normal_(self.first, std=self.features**-0.5)
        nn.init.normal_(self.last, std=(self.features * self.rank) ** -0.5)
        nn.init.normal_(self.inner, std=0.5 * (self.features * self.rank) ** -0.5)
        self.inner.data += torch.eye(self.rank, device=self.inner.device)[:, None] / self.features

    def core(self, k: int) -> Tensor:
        """G_k ``(g, r, m, r)`` of the input number k, from 2 to d - 1."""
        return self.inner[:, 0 if self.equal_cores else k - 2]

    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.einsum("bi,gia->gba", features[0], self.first)
        scale = features.new_zeros(features.shape[1])
        if self.equal_cores and not self.rescale and self.steps > 2 and len(state) == 1:
            state = bilinear_last(features[1:-1], self.core(2)[0], state[0])[None]
        else:
            for k, f in enumerate(features[1:-1], start=2):
                state = self._step(state, f, self.core(k))
                if self.rescale:
                    state, size = unit_rms(state, (0, 2))
                    scale = scale + size.flatten()
        scores = self._step(state, features[-1], self.last)
        return scores.permute(1, 0, 2).flatten(1), scale

    def _step(self, state: Tensor, f: Tensor, core: Tensor) -> Tensor:
        """sum_{a i} s_a f_i G_aic: ``(g, B, r)`` and ``(B, m)`` to ``(g, B, c)``."""
        pairs = (state[..., None] * f[:, None]).flatten(2)
        return pairs @ core.flatten(1, 2)

    def coefficients(self) -> Tensor:
        train = self.first
        for k in range(2, self.steps):
            train = torch.einsum("g...a,gaib->g...ib", train, self.core(k))
        whole = torch.einsum("g...a,gaic->gc...i", train, self.last)
        return whole.flatten(0, 1)

    @classmethod
    @torch.no_grad()
    def from_circuit(cls, circuit: RAC, readout: Tensor, steps: int) -> Self:
        """The network y = readout h_T of a shallow arithmetic circuit, ``readout`` ``(Y, R)``, after ``steps`` inputs.

        G_1 = W_I^T diag(a), G = the circuit's core, G_d^{a i y} = sum_k G^{a i k} readout_yk; the inputs themselves are
        the features.
        """
        core, cell = circuit.core(), circuit.cells[0]
        if cell.bias is not None:
            raise OptionError(
                "a circuit with a bias is no tensor train of its inputs: give it an input that is always 1"
            )
        rank, modes, _ = core.shape
        if readout.dim() != 2 or readout.shape[1] != rank:
            raise ShapeError(f"readout must be (classes, {rank}), one column per channel; got {tuple(readout.shape)}")
        net = cls(modes, rank, len(readout), steps, features=0, equal_cores=True, device=core.device, dtype=core.dtype)
        net.first[0] = cell.weight_ih.mT * cell.initial_state(1).product
        net.inner[0] = core
        net.last[0] = core @ readout.mT
        return net
