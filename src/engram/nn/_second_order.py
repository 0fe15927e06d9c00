"""Second-order recurrences: every pair of a unit of the state and a number of the input may have its weight."""

from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size
from engram.loops import PLAIN, activate, check_activation_dtype
from engram.maps import MapLike, make_map
from engram.nn._bare_cell import BareCell
from engram.nn._options import CommonOptions, MatrixOptions, ProductOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Law, Normal, Uniform


class BilinearCell(BareCell):
    """One layer of :class:`BilinearRNN`; ``tensor`` is A ``(H, D, H)``: old state, input, new state.

    From zero a product alone never leaves zero, so it starts at ones, and its weights are normal, of a variance that
    keeps the size of a state when inputs are about 1.
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
        check_choice("activation", activation, PLAIN)
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

    Linear in the state unless an activation is given: the output is then a polynomial of the inputs, of degree
    C(T+L-1, L) at depth L, and with one-hot inputs the network is a weighted automaton.
    Source: On the Role of Depth in the Expressivity of RNNs.

    Args:
        activation: ``identity``, ``tanh``, ``relu`` or ``sigmoid``.
        residual: add the input of a layer to its new state (needs equal sizes).
        initial_state: ``ones``, ``trained`` (from ones), or ``zero``.
        others: as :class:`Recurrent`. There is no bias.
    """

    cell = BilinearCell
    source = "On the role of depth in RNNs (BIRNN)"

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


class SecondOrderCell(BilinearCell):
    """One layer of :class:`SecondOrderRNN`: the tensor of a :class:`BilinearCell`, and W_ih, W_hh, b of an RNN.

    All weights start in U(-1/sqrt(H), 1/sqrt(H)).
    """

    equation = "h_t = act(A x_1 h_{t-1} x_2 x_t + W_hh h_{t-1} + W_ih x_t + b)"
    count = "N^2 D + N^2"
    step_cost = "O(N^2 D)"
    linear = True
    weight_ih: Tensor
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "tanh",
        initial_state: str = "zero",
        bias: bool = True,
        **options: Any,
    ) -> None:
        options |= {"activation": activation, "initial_state": initial_state, "bias": bias}
        super().__init__(input_size, hidden_size, **options)

    def declare_linear(self, bias: bool, map: MapLike) -> None:
        """W_ih, W_hh under the map, b."""
        self.declare("weight_ih", self.hidden_size, self.input_size)
        self.declare("weight_hh", self.hidden_size, self.hidden_size, map=make_map(map, self.hidden_size))
        if bias:
            self.declare("bias", self.hidden_size)
        else:
            self.register_parameter("bias", None)

    def added(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih + self._eye() if self.residual else self.weight_ih, self.bias

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """A x_1 h x_2 x + W_hh h, ``(B, H)``."""
        return super().product(state, input) + state @ self.weight_hh.mT


class SecondOrderRNN(Recurrent):
    r"""The second-order recurrent network (2RNN).

    .. math::
        h_t = \phi(\mathcal A \times_1 h_{t-1} \times_2 x_t + V h_{t-1} + U x_t + b), \qquad
        (\mathcal A \times_1 h \times_2 x)_k = \sum_{ij} \mathcal A_{ijk} h_i x_j

    Source: Giles et al. 1992. Cost: O(T B H^2 D).

    Args:
        activation: ``tanh``, ``identity``, ``relu`` or ``sigmoid``.
        residual: add the input of a layer to its new state (needs equal sizes).
        initial_state: ``zero``, ``ones`` or ``trained``.
        others: as :class:`RNN`.
    """

    cell = SecondOrderCell
    source = "Giles et al. 1992 (2RNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        residual: bool = False,
        **options: Unpack[MatrixOptions],
    ) -> None:
        own: dict[str, Any] = {"activation": activation, "residual": residual}
        super().__init__(input_size, hidden_size, num_layers, **own, **options)


class CPBilinearCell(BilinearCell):
    """One layer of :class:`CPBIRNN`: the tensor is a sum of R products, [[A, B, C]], and is never built.

    ``factor_h`` and ``factor_out`` are A and C, ``(H, R)``; ``factor_x`` is B, ``(D, R)``.
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
    """One layer of :class:`CPRNN`."""

    equation = "h_t = act(C ((A^T h_{t-1}) (B^T x_t)) + W_hh h_{t-1} + W_ih x_t + b)"
    count = "(2N + D) R + N^2"
    step_cost = "O(N^2 + N R)"


class CPRNN(Recurrent):
    r"""A second-order network whose tensor is a sum of R products, so that it costs about as much as an RNN.

    .. math:: h_t = \phi(C\,((A^\top h_{t-1}) \odot (B^\top x_t)) + V h_{t-1} + U x_t + b)

    Source: Lizaire et al. 2024, Def. 4 and Eq. 5. Cost: O(T B (H^2 + (2H + D) R)).

    Args:
        rank: R; default: H.
        activation, residual, initial_state, others: as :class:`SecondOrderRNN`.
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
    """A :class:`BilinearRNN` whose tensor is a sum of R products; ``rank`` is H by default."""

    cell = CPBilinearCell
    source = "On the role of depth in RNNs (CPBIRNN)"

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
