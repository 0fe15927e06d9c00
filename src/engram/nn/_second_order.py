"""Second-order recurrences: every pair of a unit of the state and a number of the input may have its weight."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import OptionError, check_choice, check_size
from engram.kernels import PLAIN, activate, bilinear, check_activation_dtype, factored
from engram.nn._cell import Cell
from engram.nn._recurrent import Recurrent

Empty = Callable[..., nn.Parameter]


class BilinearCell(Cell):
    """One layer of :class:`BilinearRNN`; ``tensor`` is A ``(H, D, H)``: old state, input, new state."""

    equation = "h_t = act(A x_1 h_{t-1} x_2 x_t)"
    count = "N^2 D"
    step_cost = "O(N^2 D)"
    uniform: ClassVar[tuple[str, ...]] = ("tensor",)
    linear = False
    """Whether there is a linear part beside the product, and zero may be the initial state."""
    tensor: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "identity",
        residual: bool = False,
        initial_state: str = "ones",
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        check_choice("activation", activation, PLAIN)
        check_activation_dtype(activation, dtype or torch.get_default_dtype())
        check_choice("initial_state", initial_state, ("ones", "trained", "zero"))
        if residual and input_size != hidden_size:
            raise OptionError(
                f"residual adds the input to the state, so both need one size, got {input_size} and {hidden_size}"
            )
        if not self.linear and (options.get("bias") or options.get("map", "free") != "free"):
            raise OptionError(f"the step of {type(self).__name__} is a product alone, without a bias or a matrix")
        self.begins = 0.0 if initial_state == "zero" else 1.0
        super().__init__(
            input_size,
            hidden_size,
            initial_state="trained" if initial_state == "trained" else "zero",
            dtype=dtype,
            **options,
        )
        self.activation, self.residual = activation, residual

    def _make_weights(self, empty: Empty, bias: bool) -> None:
        self.register_parameter("bias", None)
        self._make_tensor(empty)

    def _make_tensor(self, empty: Empty) -> None:
        self.tensor = empty(self.hidden_size, self.input_size, self.hidden_size)

    @property
    def like(self) -> Tensor:
        weight: Tensor = getattr(self, self.uniform[-1])
        return weight

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """With a linear part all in U(-1/sqrt(H), 1/sqrt(H)) (spec/depth.md section 1). A product alone would vanish
        with it: its weights are normal, of a variance that keeps the size of a state when inputs are about 1. A trained
        initial state starts at ones."""
        super().reset_parameters()
        if not self.linear:
            for name, deviation in self._deviations().items():
                nn.init.normal_(getattr(self, name), std=deviation)
        if self.start is not None:
            self.start.fill_(1.0)

    def _deviations(self) -> dict[str, float]:
        return {"tensor": (self.hidden_size * self.input_size) ** -0.5}

    def initial_state(self, batch: int) -> Tensor:
        """Ones unless told otherwise: from zero, a product alone never leaves zero."""
        row = self.like.new_full((self.hidden_size,), self.begins) if self.start is None else self.start[0]
        return row.expand(batch, -1)

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """A x_1 h x_2 x, ``(B, H)``."""
        return torch.einsum("ijk,bi,bj->bk", self.tensor, state, input)

    def full_tensor(self) -> Tensor:
        """A ``(H, D, H)``."""
        return self.tensor

    def added(self) -> tuple[Tensor | None, Tensor | None]:
        """Weight and bias of what a step adds to the product, an affine map of the input."""
        return self._eye() if self.residual else None, None

    def _eye(self) -> Tensor:
        return torch.eye(self.hidden_size, dtype=self.like.dtype, device=self.like.device)

    def drive(self, input: Tensor) -> Tensor:
        """The input, and what is added, side by side."""
        weight, bias = self.added()
        return input if weight is None else torch.cat([input, F.linear(input, weight, bias)], -1)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        input, added = drive[..., : self.input_size], drive[..., self.input_size :]
        new = self.product(state, input)
        return activate(self.activation, new + added if added.shape[-1] else new)

    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        return bilinear(input, *self.added(), self.tensor, state, sizes, self.activation, reverse)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}"


class BilinearRNN(Recurrent):
    r"""The bilinear recurrent network (BIRNN): state and input meet in a tensor, and nowhere else.

    .. math::
        h_t = \phi(\mathcal A \times_1 h_{t-1} \times_2 x_t), \qquad
        (\mathcal A \times_1 h \times_2 x)_k = \sum_{ij} \mathcal A_{ijk} h_i x_j

    Linear in the state unless an activation is given: the output is then a polynomial of the inputs, of degree
    C(T+L-1, L) at depth L, and with one-hot inputs the network is a weighted automaton. Source: spec/depth.md 1.

    Args:
        activation: ``identity``, ``tanh``, ``relu`` or ``sigmoid``.
        residual: add the input of a layer to its new state (needs equal sizes).
        initial_state: ``ones``, ``trained`` (from ones), or ``zero``.
        others: as :class:`Recurrent`. There is no bias.
    """

    cell = BilinearCell
    source = "On the role of depth in RNNs (BIRNN)"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, bias: bool = False, **options: Any
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias=bias, **options)


class SecondOrderCell(BilinearCell):
    """One layer of :class:`SecondOrderRNN`: the tensor of a :class:`BilinearCell`, and W_ih, W_hh, b of an RNN."""

    equation = "h_t = act(A x_1 h_{t-1} x_2 x_t + W_hh h_{t-1} + W_ih x_t + b)"
    count = "N^2 D + N^2"
    step_cost = "O(N^2 D)"
    uniform: ClassVar[tuple[str, ...]] = ("weight_ih", "weight_hh", "bias", "tensor")
    linear = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "tanh",
        initial_state: str = "zero",
        **options: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, activation=activation, initial_state=initial_state, **options)

    def _make_weights(self, empty: Empty, bias: bool) -> None:
        Cell._make_weights(self, empty, bias)
        self._make_tensor(empty)

    def added(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih + self._eye() if self.residual else self.weight_ih, self.bias

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """A x_1 h x_2 x + W_hh h, ``(B, H)``."""
        return super().product(state, input) + state @ self.weight_hh.mT

    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        """W_hh is a slice of A for a number of the input that is always 1."""
        one = torch.cat([input, torch.ones_like(input[..., :1])], -1)
        both = torch.cat([self.tensor, self.weight_hh.t()[:, None]], 1)
        weight, bias = self.added()
        with_one = torch.cat([weight, torch.zeros_like(weight[:, :1])], 1)
        return bilinear(one, with_one, bias, both, state, sizes, self.activation, reverse)


class SecondOrderRNN(Recurrent):
    r"""The second-order recurrent network (2RNN).

    .. math::
        h_t = \phi(\mathcal A \times_1 h_{t-1} \times_2 x_t + V h_{t-1} + U x_t + b), \qquad
        (\mathcal A \times_1 h \times_2 x)_k = \sum_{ij} \mathcal A_{ijk} h_i x_j

    Source: Giles et al. 1992; spec/depth.md section 1, Def. 2. Cost: O(T B H^2 D).

    Args:
        activation: ``tanh``, ``identity``, ``relu`` or ``sigmoid``.
        residual: add the input of a layer to its new state (needs equal sizes).
        initial_state: ``zero``, ``ones`` or ``trained``.
        others: as :class:`RNN`.
    """

    cell = SecondOrderCell
    source = "Giles et al. 1992 (2RNN)"


class CPBilinearCell(BilinearCell):
    """One layer of :class:`CPBIRNN`: the tensor is a sum of R products, [[A, B, C]], and is never built.

    ``factor_h`` and ``factor_out`` are A and C, ``(H, R)``; ``factor_x`` is B, ``(D, R)``.
    """

    equation = "h_t = act(C ((A^T h_{t-1}) (B^T x_t)))"
    count = "(2N + D) R"
    step_cost = "O(N R)"
    uniform: ClassVar[tuple[str, ...]] = ("factor_h", "factor_x", "factor_out")

    factor_h: Tensor
    factor_x: Tensor
    factor_out: Tensor

    def __init__(self, input_size: int, hidden_size: int, *, rank: int | None = None, **options: Any) -> None:
        self.rank = hidden_size if rank is None else check_size("rank", rank)
        super().__init__(input_size, hidden_size, **options)

    def _make_tensor(self, empty: Empty) -> None:
        self.factor_h, self.factor_out = empty(self.hidden_size, self.rank), empty(self.hidden_size, self.rank)
        self.factor_x = empty(self.input_size, self.rank)

    def _deviations(self) -> dict[str, float]:
        return {"factor_h": self.hidden_size**-0.5, "factor_x": self.input_size**-0.5, "factor_out": self.rank**-0.5}

    def full_tensor(self) -> Tensor:
        """sum_r a_r o b_r o c_r, for small sizes."""
        return torch.einsum("ir,jr,kr->ijk", self.factor_h, self.factor_x, self.factor_out)

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """C ((A^T h) (B^T x)) (Eq. 5), and W_hh h if there is one."""
        new = ((state @ self.factor_h) * (input @ self.factor_x)) @ self.factor_out.mT
        return new + state @ self.weight_hh.mT if self.linear else new

    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        weights = self.factor_x, *self.added(), self.weight_hh if self.linear else None, self.factor_h, self.factor_out
        return factored(input, *weights, state, sizes, self.activation, reverse)


class CPCell(CPBilinearCell, SecondOrderCell):
    """One layer of :class:`CPRNN`."""

    equation = "h_t = act(C ((A^T h_{t-1}) (B^T x_t)) + W_hh h_{t-1} + W_ih x_t + b)"
    count = "(2N + D) R + N^2"
    step_cost = "O(N^2 + N R)"
    uniform = ("weight_ih", "weight_hh", "bias", "factor_h", "factor_x", "factor_out")


class CPRNN(Recurrent):
    r"""A second-order network whose tensor is a sum of R products, so that it costs about as much as an RNN.

    .. math:: h_t = \phi(C\,((A^\top h_{t-1}) \odot (B^\top x_t)) + V h_{t-1} + U x_t + b)

    Source: Lizaire et al. 2024; spec/depth.md section 1, Def. 4 and Eq. 5. Cost: O(T B (H^2 + (2H + D) R)).

    Args:
        rank: R; H unless given.
        activation, residual, initial_state, others: as :class:`SecondOrderRNN`.
    """

    cell = CPCell
    source = "Lizaire et al. 2024 (CPRNN)"


class CPBIRNN(BilinearRNN):
    """A :class:`BilinearRNN` whose tensor is a sum of R products; ``rank`` is H unless given (spec/depth.md 1)."""

    cell = CPBilinearCell
    source = "On the role of depth in RNNs (CPBIRNN)"
