"""What a recurrence remembers: the fields of a state, and all that is done to a state whatever it is made of.

A state is one tensor, or a NamedTuple of tensors (of ``torch.nn.LSTM``: a tuple). A cell's state has the batch as its
first axis, ``(B, *shape)``; a layer stacks those of its cells, ``(L*directions, B, *shape)``. A cell describes its
state by fields of the same form: one :class:`Field`, or that NamedTuple with a :class:`Field` in place of each tensor.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from engram.errors import DTypeError, ShapeError, check_size

State = Any
"""One tensor, or a (Named)Tuple of tensors."""
Fields = Any
"""One :class:`Field`, or a NamedTuple of fields."""
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of the parts of complex numbers. (torch.compile does not know ``dtype.to_real``.)"""


@dataclass(frozen=True, init=False)
class Field:
    """One tensor of a state, as it is for one row of a batch.

    Args:
        shape: of one row: ``Field(20)`` is ``(B, 20)``, ``Field(5, 20)`` is ``(B, 5, 20)``, ``Field()`` is ``(B,)``.
        dtype: default: that of the weights; integers and booleans are carried along and have no gradient.
        initial: the value before the first step, such as 0, 1 or ``-math.inf``.
        trained: the value before the first step is a parameter that starts at ``initial``.
        grows: a memory of all steps, ``(B, steps, *shape)``: it starts empty, and each step appends one entry. Rows of
            a batch that have ended (packed sequences) are padded with ``initial``: let a score of -inf, or a mask of
            False beside the memory, say which entries count.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype | None
    initial: float
    trained: bool
    grows: bool

    def __init__(
        self,
        *shape: int,
        dtype: torch.dtype | None = None,
        initial: float = 0.0,
        trained: bool = False,
        grows: bool = False,
    ) -> None:
        for size in shape:
            check_size("a size of a field", size, least=0)
        if trained and (grows or dtype is not None):
            raise DTypeError("a trained field has the dtype of the weights, and does not grow")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex) and initial % 1 != 0:
            raise DTypeError(f"a field of {dtype} starts from a whole number, got initial={initial}")
        values = {"shape": shape, "dtype": dtype, "initial": initial, "trained": trained, "grows": grows}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def before(self, batch: int, weight: Tensor) -> Tensor:
        """The field of a batch before the first step, without a gradient, with the device and dtype of a weight."""
        shape = (batch, 0, *self.shape) if self.grows else self.shape
        row = torch.full(shape, self.initial, dtype=self.dtype or weight.dtype, device=weight.device)
        return row if self.grows else row.expand(batch, *self.shape)


def check_fields(fields: Fields) -> Fields:
    """Fields as a cell may declare them."""
    if not isinstance(fields, Field) and not (
        hasattr(fields, "_fields") and len(fields) and all(isinstance(field, Field) for field in fields)
    ):
        raise DTypeError(f"fields() must return a Field, or a NamedTuple of them; got {fields!r:.100}")
    return fields


def each(function: Callable[..., Any], *states: Any) -> Any:
    """``function`` of single tensors, or of tuples field by field; ``each(f, state, fields)`` gives f also the fields.

    >>> each(lambda a, b: a + b, (1, 2), (10, 20))
    (11, 22)
    """
    first = states[0]
    if not isinstance(first, tuple):
        return function(*states)
    values = [function(*parts) for parts in zip(*states, strict=True)]
    return tuple(values) if type(first) is tuple else type(first)(*values)


def parts(state: Any) -> list[Any]:
    """The tensors of a state, or the fields of fields."""
    return [] if state is None else list(state) if isinstance(state, tuple) else [state]


def named_fields(fields: Fields) -> Iterator[tuple[str, Field]]:
    """Fields with their names; one alone has the name ``""``."""
    names = fields._fields if isinstance(fields, tuple) else ("",)  # type: ignore[attr-defined]
    yield from zip(names, parts(fields), strict=True)


# The rows of a batch, in a cell: the batch is the first axis.


def first_rows(state: State, n: int) -> State:
    """The first n rows: of a packed batch those whose sequences have not ended."""
    return each(lambda s: s[:n], state)


def replace_rows(new: State, old: State, fields: Fields = None) -> State:
    """``new`` in place of the first rows of ``old``; the other rows keep their state.

    With ``fields`` a memory that grows is padded in the other rows, so that all rows have the same number of steps.
    """
    if fields is None:
        return each(_joined, new, old)
    return each(lambda s, o, field: _joined(s, _grown(o, s.shape[1], field) if field.grows else o), new, old, fields)


def _joined(new: Tensor, old: Tensor) -> Tensor:
    return new if len(new) == len(old) else torch.cat([new, old[len(new) :]])


def _grown(memory: Tensor, steps: int, field: Field) -> Tensor:
    """A memory ``(B, t, *shape)`` padded to this many steps."""
    if memory.shape[1] == steps:
        return memory
    missing = memory.new_full((len(memory), steps - memory.shape[1], *field.shape), field.initial)
    return torch.cat([memory, missing], 1)


# The states of a layer: those of its cells, stacked; the batch is the second axis.


def stack(states: list[State]) -> State:
    """The states of all cells as one."""
    return each(lambda *s: torch.stack(s), *states)


def unstack(state: State) -> list[State]:
    """The states of the cells, one by one."""
    return [each(lambda s, k=k: s[k], state) for k in range(parts(state)[0].shape[0])]


def detached(state: State) -> State:
    """The same numbers, without their history."""
    return each(Tensor.detach, state)


def carried(state: State, fields: Fields) -> State:
    """What a cell takes into the next window of truncated training: no history, and memories that grow are emptied."""
    return each(lambda s, field: s.detach()[:, :0] if field.grows else s.detach(), state, fields)


def checked(state: State, fields: Fields, cells: int, batch: int | None, weight: Tensor) -> State:
    """A state that somebody gives to a layer of this many cells: its form, shapes and dtypes are those of the fields.

    Args:
        batch: None for the state of one sequence, which has no such axis.
        weight: has the dtype and the device that the state must have.
    """
    lead = (cells,) if batch is None else (cells, batch)
    if isinstance(state, Tensor) and not isinstance(fields, tuple) and state.shape == (*lead, *fields.shape):
        return in_dtype(state, fields.dtype or weight.dtype, weight.device, "state (hx)")  # nearly always
    kind = type(fields) if isinstance(fields, tuple) else None
    form = f"a {kind.__name__} of {len(fields)} tensors" if kind else "one tensor"
    if kind and isinstance(state, tuple) and len(state) == len(fields):
        state = kind(*state)
    elif kind or not isinstance(state, Tensor):
        raise DTypeError(
            f"state (hx) must be {form}, got {type(state).__name__}. Leave it out to start from the initial state"
        )
    names = iter([name for name, _ in named_fields(fields)])
    lengths = {
        tensor.shape[len(lead)]
        for tensor, field in zip(parts(state), parts(fields), strict=True)
        if field.grows and isinstance(tensor, Tensor) and tensor.dim() > len(lead)
    }

    def check(tensor: Any, field: Field) -> Tensor:
        name = next(names)
        what = f"the field {name} of the state (hx)" if name else "state (hx)"
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"{what} must be a tensor, got {type(tensor).__name__}. Use torch.as_tensor")
        steps = (min(lengths, default=0),) if field.grows else ()
        shape = (*lead, *steps, *field.shape)
        if tuple(tensor.shape) != shape:
            raise ShapeError(
                f"{what} must have the shape {shape} (num_layers * directions, batch, size of one state; no batch for "
                f"an unbatched input), got {tuple(tensor.shape)}. layer.initial_state(batch) makes one"
            )
        return in_dtype(tensor, field.dtype or weight.dtype, weight.device, what)

    return each(check, state, fields)


def in_dtype(tensor: Tensor, dtype: torch.dtype, device: torch.device, what: str = "input") -> Tensor:
    """A tensor given to a layer of this dtype. Real numbers for complex ones, and any under autocast, are converted."""
    if tensor.device != device:
        raise DTypeError(
            f"{what} is on {tensor.device} and the layer on {device}. Move one: {_variable(what)}.to({str(device)!r})"
        )
    if tensor.dtype == dtype:
        return tensor
    fits = tensor.dtype == REAL.get(dtype)
    numbers = tensor.is_floating_point() and (dtype.is_floating_point or dtype.is_complex)
    if fits or (numbers and torch.is_autocast_enabled(device.type)):
        return tensor.to(dtype)
    if dtype.is_complex and tensor.dtype in (torch.bfloat16, torch.float16):
        raise DTypeError(
            f"{what} is {tensor.dtype} and the layer {dtype}: there are no complex numbers of 16 bits to compute with. "
            f"Convert it: {_variable(what)}.to({dtype.to_real()})"
        )
    if not (dtype.is_floating_point or dtype.is_complex):
        raise DTypeError(f"{what} is {tensor.dtype} and must be {dtype}. Convert it: {_variable(what)}.to({dtype})")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        symbols = " Symbols must be embedded first: torch.nn.Embedding or torch.nn.functional.one_hot"
        raise DTypeError(
            f"{what} is {tensor.dtype}, whole numbers, and the layer computes in {dtype}. Convert it: "
            f"{_variable(what)}.to({dtype}).{symbols if what == 'input' else ''}"
        )
    raise DTypeError(
        f"{what} is {tensor.dtype} and the layer {dtype}. "
        f"Convert one: {_variable(what)}.to({dtype}) or layer.to({tensor.dtype})"
    )


def _variable(what: str) -> str:
    return "input" if what == "input" else "state"


# A state as one vector for each row.


@dataclass(frozen=True)
class Vectors:
    """How the state of any module lies in a matrix ``(B, N)`` of real numbers, to be differentiated.

    form: what holds the tensors (tuples, lists, dicts); shapes: of their rows; batch: its axis in each; dtypes: of the
    tensors. Integers, booleans and memories that grow have no such place.
    """

    form: Any
    shapes: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def between(cls, two: Any, three: Any) -> "Vectors | None":
        """From the states of a batch of two and of a batch of three: the batch is the axis of length 2 in the one and 3
        in the other. None if a tensor has no such axis, or several, or is not of real or complex numbers."""
        (small, form), (large, _) = pytree.tree_flatten(two), pytree.tree_flatten(three)
        if not small or len(small) != len(large) or not all(isinstance(part, Tensor) for part in (*small, *large)):
            return None
        batch = []
        for a, b in zip(small, large, strict=True):
            apart = [d for d in range(a.dim()) if a.dim() == b.dim() and a.shape[d] != b.shape[d]]
            if len(apart) != 1 or (a.shape[apart[0]], b.shape[apart[0]]) != (2, 3):
                return None
            if not (a.is_floating_point() or a.is_complex()):
                return None
            batch.append(apart[0])
        shapes = tuple(tuple(part.movedim(d, 0).shape[1:]) for part, d in zip(small, batch, strict=True))
        return cls(form, shapes, tuple(batch), tuple(part.dtype for part in small))

    @property
    def size(self) -> int:
        """N, the real numbers of a state."""
        return sum(self._widths)

    @property
    def _widths(self) -> list[int]:
        counts = (torch.Size(shape).numel() for shape in self.shapes)
        return [count * (2 if kind.is_complex else 1) for count, kind in zip(counts, self.dtypes, strict=True)]

    def flatten(self, state: Any) -> Tensor:
        """``(B, N)``."""
        parts = []
        for part, d in zip(pytree.tree_flatten(state)[0], self.batch, strict=True):
            rows = part.movedim(d, 0)
            parts.append((torch.view_as_real(rows.resolve_conj()) if rows.is_complex() else rows).flatten(1))
        return torch.cat(parts, 1)

    def restore(self, rows: Tensor) -> Any:
        """The state that :meth:`flatten` made these rows of."""
        parts = []
        for part, shape, d, kind in zip(rows.split(self._widths, 1), self.shapes, self.batch, self.dtypes, strict=True):
            whole = part.reshape(len(rows), *shape, *((2,) if kind.is_complex else ()))
            whole = torch.view_as_complex(whole.contiguous()) if kind.is_complex else whole.to(kind)
            parts.append(whole.movedim(0, d).contiguous())
        return pytree.tree_unflatten(parts, self.form)
