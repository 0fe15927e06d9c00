"""One layer in one direction: what a recurrence does in a step. Everything around it is in ``_recurrent.py``."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from engram.errors import DataError, DTypeError, OptionError, check_choice, check_size
from engram.kernels import scan
from engram.maps import Free, MapLike, make_map, mapped_weights, without_autocast
from engram.nn._parametrized import plain_class, restore_class, with_built_weights


class Cell(nn.Module, ABC):
    """The base of every recurrence. Write :meth:`step` (and the equation); the rest is here.

    ::

        class LeakyCell(engram.nn.Cell):
            equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

            def step(self, drive, state):
                return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)

        class LeakyRNN(engram.nn.Recurrent):
            cell = LeakyCell

    ``LeakyRNN(input_size, hidden_size, num_layers, batch_first=..., bidirectional=...)`` is now a layer like
    ``torch.nn.LSTM``, and :func:`engram.nn.check_contract` tests that it is.

    Class attributes:
        equation: the recurrence, for people.
        gates: G, how many blocks of ``hidden_size`` the drive has (an LSTM: 4).
        uniform: the parameters with the law of torch.nn.RNN.
        State: None if the state is one tensor ``(B, H)``; else a NamedTuple class, one tensor ``(B, H)`` a field.

    Parameters, with the law of torch.nn.RNN, U(-1/sqrt(H), 1/sqrt(H)):
        weight_ih ``(G*H, D)``, weight_hh ``(G*H, H)`` (under ``map`` if one is given), bias ``(G*H)``,
        start ``(fields, H)`` if ``initial_state="trained"``.
    """

    equation: ClassVar[str] = ""
    gates: ClassVar[int] = 1
    uniform: ClassVar[tuple[str, ...]] = ("weight_ih", "weight_hh", "bias")
    count: ClassVar[str] = ""
    """The recurrent parameters of N units with D inputs, for people; those of the map unless given."""
    step_cost: ClassVar[str] = "O(N^2)"
    State: ClassVar[Any] = None

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor | None
    start: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        map: MapLike = "free",
        initial_state: str = "zero",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        check_choice("initial_state", initial_state, ("trained", "zero"))
        rows, made = self.gates * hidden_size, make_map(map, hidden_size)
        if rows != hidden_size and type(made) is not Free:
            raise OptionError(
                f"a map needs a square matrix, but weight_hh of {type(self).__name__} is {rows} x {hidden_size}"
            )

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self._make_weights(empty, bias)
        self.register_parameter(
            "start", empty(len(self._fields()), hidden_size) if initial_state == "trained" else None
        )
        self.reset_parameters()
        if type(made) is not Free:
            made.install(self, "weight_hh", device=device, dtype=dtype)
            if self.weight_hh.is_complex() != self.weight_ih.is_complex():
                raise DTypeError(
                    f"{made!r} gives {self.weight_hh.dtype} matrices, this layer has {self.weight_ih.dtype} weights. "
                    "Use dtype=torch.complex64 for a complex map, a real dtype for a real one"
                )

    def _make_weights(self, empty: Callable[..., nn.Parameter], bias: bool) -> None:
        """The parameters, not yet drawn; those in ``uniform`` are drawn by :meth:`reset_parameters`."""
        rows = self.gates * self.hidden_size
        self.weight_ih = empty(rows, self.input_size)
        self.weight_hh = empty(rows, self.hidden_size)
        self.register_parameter("bias", empty(rows) if bias else None)

    @property
    def like(self) -> Tensor:
        """A weight that has the dtype and the device of the cell."""
        return self.weight_ih

    def _fields(self) -> tuple[str, ...]:
        return ("h",) if self.State is None else tuple(self.State._fields)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights anew: U(-1/sqrt(H), 1/sqrt(H)); a trained initial state starts at zero."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name in self.uniform:
            weight = self._parameters.get(name)
            if weight is not None:  # a weight under a map is drawn by the map, below
                real = torch.view_as_real(weight) if weight.is_complex() else weight
                real.uniform_(-bound, bound)
        if self.start is not None:
            self.start.zero_()
        if parametrize.is_parametrized(self):
            for name, (map, free) in zip(self.parametrizations, mapped_weights(self), strict=True):  # type: ignore[arg-type]
                setattr(self, name, map.sample(device=free[0].device, dtype=getattr(self, name).dtype))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """``.double()`` and ``.to(torch.float64)`` set the precision of a complex cell, which stays complex.

        Of 16 bits there are no complex numbers to compute with: ``.half()`` and ``.bfloat16()`` leave it at complex64.
        """
        weight = self.like
        if not weight.is_complex():
            return super()._apply(fn, recurse)
        asked = fn(weight.real[:0].contiguous()).dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of imaginary parts that are discarded
            stays = fn(weight[:0].clone()).is_complex()
        if stays and asked == weight.real.dtype:
            return super()._apply(fn, recurse)
        kind = torch.promote_types(asked, torch.complex64)

        def keep(tensor: Tensor) -> Tensor:
            if not tensor.is_complex():
                moved = fn(tensor)
                return moved if moved.dtype == tensor.dtype else tensor.to(moved.device, kind.to_real())
            return tensor.to(fn(tensor.real[..., :0].contiguous()).device, kind)

        return super()._apply(keep, recurse)

    @property
    def output_size(self) -> int:
        """The number of features of :meth:`output`."""
        return self.hidden_size

    @property
    def state_width(self) -> int:
        """The number of features of a state, of each field if it has several."""
        return self.hidden_size

    @abstractmethod
    def step(self, drive: Tensor, state: State) -> State:
        """One step: drive ``(B, G*H)`` and state ``(B, H)`` to the next state."""

    def drive(self, input: Tensor) -> Tensor:
        """The input projection of all steps at once: ``(..., D)`` to ``(..., G*H)``."""
        return F.linear(input, self.weight_ih, self.bias)

    def output(self, state: State) -> Tensor:
        """What the layer above sees of a state: the state, or its first field."""
        first: Tensor = state if self.State is None else state[0]
        return first

    def initial_state(self, batch: int) -> State:
        """The state ``(B, H)`` before the first step."""
        rows = self.start if self.start is not None else self.like.new_zeros(len(self._fields()), self.hidden_size)
        fields = [row.expand(batch, -1) for row in rows]
        return fields[0] if self.State is None else self.State(*fields)

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        """All steps: outputs ``(T, B, H)`` (or packed rows, with ``sizes``) and the last state.

        The plain loop; a cell with a fast kernel overrides this. A matrix under a map is built once, not once a step.
        """
        cell = with_built_weights(self)
        return scan(cell.step, cell.drive(input), state, sizes, reverse, cell.output)

    def last(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> State:
        """The last state of :meth:`run` alone, of which nothing is kept: the backward pass runs the steps again."""
        return checkpoint(lambda *a: self.run(*a)[1], input, state, sizes, reverse, use_reentrant=False)

    def penalty(self) -> Tensor:
        """What the maps of this cell add to a training loss; zero for those without a soft constraint."""
        total = self.like.new_zeros(()).real
        with without_autocast(total):
            for map, free in mapped_weights(self):
                total = total + map.penalty(*free)
        return total

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not parametrize.is_parametrized(self):
            return super().__reduce_ex__(protocol)
        return empty_cell, (plain_class(self),), dict(self.__dict__)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        restore_class(self)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def empty_cell(kind: type[Cell]) -> Cell:
    """What a file calls to make a cell with parametrized weights, before it is filled. It makes nothing but cells."""
    if not (isinstance(kind, type) and issubclass(kind, Cell)):
        raise DataError(f"a cell in a file must be of a subclass of engram.nn.Cell, got {kind!r}")
    return kind.__new__(kind)
