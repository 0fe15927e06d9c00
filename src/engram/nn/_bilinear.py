"""Bilinear recurrences: every pair of a unit of the state and a number of the input may have its weight."""

from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import OptionError, check_choice
from engram.loops import WITHOUT_BIAS, activate, check_activation_dtype
from engram.maps import MapLike
from engram.nn._bare_cell import BareCell
from engram.nn._options import CommonOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Law, Normal, Uniform


class BilinearCell(BareCell):
    """One layer of :class:`BilinearRNN`: the step is a product of state and input.

    From zero a product alone never leaves zero, so it starts at ones, and its weights are normal, of a variance that
    keeps the size of a state when inputs are about 1.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``identity``.
        residual (bool): add the input to the new state; needs D = H. Default: False.
        initial_state (str): ``ones``, ``zero``, or ``trained``, a parameter that starts at ones. Default: ``ones``.
        bias (bool): False: there is no bias, and True is refused. Default: False.
        map (str): ``free``: there is no recurrent matrix, and another map is refused. Default: ``free``.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.
        options: ``laws`` and ``device``, as in :class:`BareCell`.

    Parameters: tensor, A ``(H, D, H)``: old state, input, new state.
    """

    equation = "h_t = act(A x_1 h_{t-1} x_2 x_t)"
    count = "N^2 D"
    step_cost = "O(N^2 D)"
    starts: ClassVar[dict[str, float]] = {"ones": 1.0, "trained": 1.0, "zero": 0.0}
    linear = False
    """Whether there is a linear part beside the product."""
    tensor: Tensor
    weight_hh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "identity",
        residual: bool = False,
        initial_state: str = "ones",
        bias: bool = False,
        map: MapLike = "free",
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        check_choice("activation", activation, WITHOUT_BIAS)
        check_activation_dtype(activation, dtype or torch.get_default_dtype())
        if residual and input_size != hidden_size:
            raise OptionError(
                f"residual adds the input to the state, so both need one size, got {input_size} and {hidden_size}"
            )
        if not self.linear and (bias or map != "free"):
            raise OptionError(f"the step of {type(self).__name__} is a product alone, without a bias or a matrix")
        super().__init__(input_size, hidden_size, initial_state=initial_state, dtype=dtype, **options)
        self.activation, self.residual = activation, residual
        self.declare_linear(bias, map)
        self.declare_tensor()

    def declare_linear(self, bias: bool, map: MapLike) -> None:
        """The weights of the linear part: here none."""
        self.register_parameter("bias", None)

    def declare_tensor(self) -> None:
        """The weights of the product."""
        d, h = self.input_size, self.hidden_size
        self.declare("tensor", h, d, h, law=self.law_of_factor(h * d))

    def law_of_factor(self, terms: int) -> Law:
        """Of a weight whose products are added up so many at a time."""
        return Uniform() if self.linear else Normal(terms**-0.5)

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """A x_1 h x_2 x, ``(B, H)``."""
        pairs = (state[:, :, None] * input[:, None]).flatten(1)
        return pairs @ self.tensor.flatten(0, 1)

    def full_tensor(self) -> Tensor:
        """A ``(H, D, H)``."""
        return self.tensor

    def added(self) -> tuple[Tensor | None, Tensor | None]:
        """Weight and bias of what a step adds to the product, an affine map of the input."""
        return self._eye() if self.residual else None, None

    def _eye(self) -> Tensor:
        return torch.eye(self.hidden_size, dtype=self.reference_weight.dtype, device=self.reference_weight.device)

    def drive(self, input: Tensor) -> tuple[Tensor, ...]:
        """The input, and what is added if anything is."""
        weight, bias = self.added()
        return (input,) if weight is None else (input, F.linear(input, weight, bias))

    def step(self, drive: tuple[Tensor, ...], state: Tensor) -> Tensor:
        input, *added = drive
        new = self.product(state, input)
        return activate(self.activation, new + added[0] if added else new)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}"


def bilinear_last(input: Tensor, tensor: Tensor, start: Tensor) -> Tensor:
    """The last state of the linear bilinear recurrence with this tensor ``(n, m, n)``, from ``start`` ``(B, n)``."""
    cell = BilinearCell(tensor.shape[1], tensor.shape[0], device="meta", dtype=tensor.dtype)
    del cell.tensor
    cell.tensor, cell._reference = tensor, tensor.new_empty(0)
    final: Tensor = cell.run(input, start, None, reverse=False)[1]
    return final


class BilinearRNN(Recurrent):
    r"""The bilinear recurrent network (BIRNN): state and input meet in a tensor, and nowhere else.

    .. math::
        h_t = \phi(\mathcal A \times_1 h_{t-1} \times_2 x_t), \qquad
        (\mathcal A \times_1 h \times_2 x)_k = \sum_{ij} \mathcal A_{ijk} h_i x_j

    Without an activation the output is a polynomial of the inputs, of degree C(T+L-1, L) at depth L, and with one-hot
    inputs the network is a weighted automaton.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
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
        tensor_l[k]: A ``(H, D, H)``, old state, input, new state; initially N(0, 1/(HD)).

    Cost: O(T B H^2 D).

    Source: Lizaire et al. (2026), Section 2, Definition 2 without the linear terms.
    """

    cell = BilinearCell
    source = "Lizaire et al. 2026 (BIRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "identity",
        residual: bool = False,
        initial_state: str = "ones",
        bias: bool = False,
        **options: Unpack[CommonOptions],
    ) -> None:
        own: dict[str, Any] = {"activation": activation, "residual": residual, "initial_state": initial_state}
        super().__init__(input_size, hidden_size, num_layers, bias, **own, **options)
