"""Second-order recurrences whose tensor is a sum of R products, and is never built."""

from typing import Any, Unpack

import torch
from torch import Tensor

from engram.errors import check_size
from engram.nn._bilinear import BilinearCell, BilinearRNN
from engram.nn._options import MatrixOptions, ProductOptions
from engram.nn._recurrent import Recurrent
from engram.nn._second_order import SecondOrderCell


class CPBilinearCell(BilinearCell):
    """One layer of :class:`CPBIRNN`: the tensor is a sum of R products, [[A, B, C]], and is never built.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        rank (int or None): R, the number of products. Default: None, which is H.
        options: ``activation``, ``residual``, ``initial_state``, ``bias``, ``map``, ``laws``, ``device`` and ``dtype``,
            as in :class:`BilinearCell`.

    Parameters: factor_h, A ``(H, R)``; factor_x, B ``(D, R)``; factor_out, C ``(H, R)``.
    """

    equation = "h_t = act(C ((A^T h_{t-1}) (B^T x_t)))"
    count = "(2N + D) R"
    step_cost = "O(N R)"

    factor_h: Tensor
    factor_x: Tensor
    factor_out: Tensor

    def __init__(self, input_size: int, hidden_size: int, *, rank: int | None = None, **options: Any) -> None:
        self.rank = hidden_size if rank is None else check_size("rank", rank)
        super().__init__(input_size, hidden_size, **options)

    def declare_tensor(self) -> None:
        d, h, r = self.input_size, self.hidden_size, self.rank
        for name, rows, terms in (("factor_h", h, h), ("factor_x", d, d), ("factor_out", h, r)):
            self.declare(name, rows, r, law=self.law_of_factor(terms))

    def full_tensor(self) -> Tensor:
        """sum_r a_r o b_r o c_r, for small sizes."""
        return torch.einsum("ir,jr,kr->ijk", self.factor_h, self.factor_x, self.factor_out)

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """C ((A^T h) (B^T x)) (Eq. 5), and W_hh h if there is one."""
        new = ((state @ self.factor_h) * (input @ self.factor_x)) @ self.factor_out.mT
        return new + state @ self.weight_hh.mT if self.linear else new


class CPCell(CPBilinearCell, SecondOrderCell):
    """One layer of :class:`CPRNN`: the products of a :class:`CPBilinearCell`, and W_ih, W_hh and b of an RNN.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        rank (int or None): R, the number of products. Default: None, which is H.
        options: ``activation``, ``residual``, ``initial_state``, ``bias``, ``map``, ``laws``, ``device`` and ``dtype``,
            as in :class:`SecondOrderCell`.

    Parameters: factor_h ``(H, R)``, factor_x ``(D, R)``, factor_out ``(H, R)``; weight_ih, weight_hh, bias.
    """

    equation = "h_t = act(C ((A^T h_{t-1}) (B^T x_t)) + W_hh h_{t-1} + W_ih x_t + b)"
    count = "(2N + D) R + N^2"
    step_cost = "O(N^2 + N R)"


class CPRNN(Recurrent):
    r"""A second-order network whose tensor is a sum of R products, so that it costs about as much as an RNN.

    .. math:: h_t = \phi(C\,((A^\top h_{t-1}) \odot (B^\top x_t)) + V h_{t-1} + U x_t + b)

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        rank (int or None): R, the number of products. Default: None, which is H.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``tanh``.
        residual (bool): add the input of a layer to its new state; needs D = H. Default: False.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, ``ones``, or ``trained``, a parameter. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        factor_h_l[k]: A ``(H, R)``; factor_x_l[k]: B ``(D, R)``; factor_out_l[k]: C ``(H, R)``; weight_ih_l[k]: U
        ``(H, D)``; weight_hh_l[k]: V ``(H, H)``; bias_l[k]: b ``(H)``; each initially U(-1/sqrt(H), 1/sqrt(H)).

    Cost: O(T B (H^2 + (2H + D) R)).

    Source: Lizaire et al. (2024); as here, Lizaire et al. (2026), Definition 4 and Eq. 5 (Appendix A.1.3).
    """

    cell = CPCell
    source = "Lizaire et al. 2024 (CPRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        rank: int | None = None,
        activation: str = "tanh",
        residual: bool = False,
        **options: Unpack[MatrixOptions],
    ) -> None:
        own: dict[str, Any] = {"rank": rank, "activation": activation, "residual": residual}
        super().__init__(input_size, hidden_size, num_layers, **own, **options)


class CPBIRNN(BilinearRNN):
    r"""A bilinear network whose tensor is a sum of R products (CPBIRNN).

    .. math:: h_t = \phi(C\,((A^\top h_{t-1}) \odot (B^\top x_t)))

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        rank (int or None): R, the number of products. Default: None, which is H.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``identity``.
        residual (bool): add the input of a layer to its new state; needs D = H. Default: False.
        bias (bool): False: there is no bias, and True is refused. Default: False.
        map (str): ``free``: there is no recurrent matrix, and another map is refused. Default: ``free``.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``ones``, ``zero``, or ``trained``, a parameter that starts at ones. Default: ``ones``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        factor_h_l[k]: A ``(H, R)``, initially N(0, 1/H); factor_x_l[k]: B ``(D, R)``, initially N(0, 1/D);
        factor_out_l[k]: C ``(H, R)``, initially N(0, 1/R).

    Cost: O(T B (2H + D) R).

    Source: Lizaire et al. (2026), Section 2 and Eq. 5 (Appendix A.1.3), without the linear terms.
    """

    cell = CPBilinearCell
    source = "Lizaire et al. 2026 (CPBIRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        rank: int | None = None,
        **options: Unpack[ProductOptions],
    ) -> None:
        own: dict[str, Any] = {"rank": rank}
        super().__init__(input_size, hidden_size, num_layers, **own, **options)
