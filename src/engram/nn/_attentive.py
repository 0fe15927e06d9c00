"""Attention in the recurrence: what a step reads of the past, whatever the cell and whatever is remembered."""

from abc import abstractmethod
from collections import namedtuple
from math import inf, sqrt
from typing import Any, cast

import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError, check_choice, check_size
from engram.nn._bare_cell import BareCell
from engram.state import Field, Fields, State, parts

ALIGNMENTS = ("additive", "dot", "uniform")
COMBINATIONS = ("sum", "mean", "concat")
READOUTS = ("h", "s")


class AttentiveCell(BareCell):
    r"""A cell whose recurrent input is s, a mix of its state h and of what attention finds in earlier states.

    .. math::
        h_t = \phi(s_{t-1}, x_t), \quad e_{m} = a(s_{t-1}, m), \quad \alpha = \mathrm{softmax}(e), \quad
        s_t = f(h_t, \textstyle\sum_m \alpha_m m)

    where m are the states attended to, h_t among them, and :math:`\phi` is the step of any cell, with s in place of the
    first field of its state. A subclass names that cell after a kind of memory::

        class LeakyRelCell(engram.nn.RelCell, LeakyCell):
            equation = "..."

    The query is the state before, :math:`s_{t-1}`; at the first step, :math:`s_0 = 0`, the step is that of the cell.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        align (str): ``additive``, :math:`v^\top \tanh(W_q s + W_k m)`; ``dot``, :math:`(W_q s)^\top W_k m / \sqrt{n}`;
            or ``uniform``, all states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, :math:`W_c [h; c]`. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        options: those of the cell.

    Parameters, with n the size of h: weight_query ``(n, n)``, weight_key ``(n, n)``, of the additive alignment
        weight_align ``(n)``; with ``concat`` weight_combine ``(n, 2n)``.
    """

    matrix_moves_state = False
    state_name = "AttentiveState"
    renamed: dict[str, str] = {}  # noqa: RUF012  (nothing changes it)
    """Fields of the cell that have another name in the state."""

    width: int = 0
    """n, the size of h and s."""
    shown_size: int = 0  # of the output, once it is known: torch.compile does not follow a property of super()
    inner_names: tuple[str, ...] = ()
    """The fields of the cell alone; none if its state is one tensor."""
    weight_query: Tensor | None
    weight_key: Tensor | None
    weight_align: Tensor | None
    weight_combine: Tensor | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__mro__[: cls.__mro__.index(AttentiveCell)]:
            if issubclass(base, BareCell) and not issubclass(base, AttentiveCell):
                raise DTypeError(
                    f"{cls.__name__} has {base.__name__} before the memory, so that its step would run without "
                    f"attention: name the memory first, class {cls.__name__}(engram.nn.RelCell, {base.__name__})"
                )

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        align: str = "additive",
        heads: int = 1,
        combine: str = "sum",
        readout: str = "h",
        **options: Any,
    ) -> None:
        self.align = check_choice("align", align, ALIGNMENTS)
        self.heads = check_size("heads", heads)
        self.combine = check_choice("combine", combine, COMBINATIONS)
        self.readout = check_choice("readout", readout, READOUTS)
        super().__init__(input_size, hidden_size, **options)
        n = self.width
        self.shown_size = n if readout == "s" else super().output_size
        if self.reference_weight.is_complex():
            raise DTypeError(
                f"{type(self).__name__} attends with real weights and needs a real dtype; got "
                f"{self.reference_weight.dtype}. Use dtype=torch.float32 or torch.float64, and a real map"
            )
        if n % heads:
            raise OptionError(f"heads must divide the {n} units of h, each head has as many; got heads={heads}")
        learns = align != "uniform"
        self._declare_if(learns, "weight_query", n, n)
        self._declare_if(learns, "weight_key", n, n)
        self._declare_if(align == "additive", "weight_align", n)
        self._declare_if(combine == "concat", "weight_combine", n, 2 * n)

    def _declare_if(self, wanted: bool, name: str, *shape: int) -> None:
        if wanted:
            self.declare(name, *shape)
        else:
            self.register_parameter(name, None)

    # The state: h, s, the other fields of the cell, and what a subclass remembers.

    @abstractmethod
    def memory_fields(self) -> dict[str, Field]:
        """What is remembered, by name."""

    def fields(self) -> Fields:
        inner = super().fields()
        first: Field = parts(inner)[0]
        if len(first.shape) != 1 or first.dtype is not None:
            raise OptionError(
                f"attention is over a state of one vector, the first field of a cell; that of {type(self).__name__} "
                f"has the shape {first.shape}" + (f" and {first.dtype}" if first.dtype else "")
            )
        if not self.width:  # once: a cell is made with its fields
            self.width = first.shape[0]
            self.inner_names = tuple(inner._fields) if isinstance(inner, tuple) else ()  # type: ignore[attr-defined]
        found = {"h": Field(*first.shape), "s": first}
        for name, field in zip(self.inner_names[1:], parts(inner)[1:], strict=True):
            found[self.renamed.get(name, name)] = field
        own = self.memory_fields()
        if twice := found.keys() & own.keys():
            raise OptionError(f"the field {min(twice)} of {type(self).__name__} is also one of its memory: rename it")
        return state_type(self.state_name, (*found, *own))(*found.values(), *own.values())

    def inner_step(self, drive: Any, state: State) -> tuple[Tensor, list[Tensor]]:
        """The cell's own step with s in place of its first field: h, and the other fields."""
        h, *others = parts(super().step(drive, self._inner(state, state.s)))  # type: ignore[safe-super]
        return h, others

    def _inner(self, state: State, first: Tensor) -> State:
        """The state as the cell alone has it, with this as its first field."""
        if not self.inner_names:
            return first
        return state_type("State", self.inner_names)(first, *state[2 : 1 + len(self.inner_names)])

    # Attention.

    def keys(self, h: Tensor) -> Tensor | None:
        """What is kept beside h for the alignment, so that it is computed once."""
        return None if self.weight_key is None else h @ self.weight_key.mT

    def weights(self, s: Tensor, keys: Tensor | None, valid: Tensor, bias: Tensor | None = None) -> Tensor:
        """alpha ``(B, heads, K)`` of K states, of which those count that are valid ``(B, K)``.

        Args:
            keys: ``(B, K, n)``.
            bias: ``(B, K)``, added to the alignment.
        """
        if keys is None or self.weight_query is None:
            count = valid.to(s.dtype)[:, None]
            return (count / count.sum(-1, keepdim=True)).expand(-1, self.heads, -1)
        query = (s @ self.weight_query.mT)[:, None]
        if self.weight_align is None:
            aligned = self._per_head(query * keys / sqrt(self.width // self.heads))
        else:
            aligned = self._per_head(torch.tanh(query + keys) * self.weight_align)
        if bias is not None:
            aligned = aligned + bias[:, None]
        absent = torch.zeros_like(valid, dtype=s.dtype).masked_fill(~valid, -inf)
        return (aligned + absent[:, None]).softmax(-1)  # the gradient of a sum need not know what is absent

    def _per_head(self, rows: Tensor) -> Tensor:
        """``(B, K, n)`` summed over the units of each head: ``(B, heads, K)``."""
        if self.heads == 1:
            return rows.sum(-1)[:, None]
        return rows.unflatten(-1, (self.heads, -1)).sum(-1).mT

    def context(self, weights: Tensor, memory: Tensor) -> Tensor:
        """c, the sum of the states ``(B, K, n)`` by their weights: ``(B, n)``."""
        if self.heads == 1:
            return (weights @ memory)[:, 0]
        heads = memory.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return (weights[:, :, None] @ heads).flatten(1)

    def combined(self, h: Tensor, context: Tensor) -> Tensor:
        """s = f(h, c)."""
        if self.weight_combine is not None:
            return torch.cat([h, context], -1) @ self.weight_combine.mT
        return h + context if self.combine == "sum" else (h + context) / 2

    @abstractmethod
    def attentive_step(self, drive: Any, state: State) -> tuple[State, Tensor]:
        """A step, and the weights ``(B, heads, K)`` of its attention."""

    def step(self, drive: Any, state: State) -> State:
        return self.attentive_step(drive, state)[0]

    def output(self, state: State) -> Tensor:
        return super().output(self._inner(state, state.h)) if self.readout == "h" else state.s

    @property
    def output_size(self) -> int:
        return self.shown_size or super().output_size

    def carry(self, state: State) -> State:
        """h, s and the cell's own fields go on without history; what is remembered is emptied."""
        fields, weight = self.fields(), self.reference_weight
        names, empty = self.memory_fields(), []
        for name, tensor, field in zip(fields._fields, state, parts(fields), strict=True):
            empty.append(field.before(len(tensor), weight) if name in names else tensor.detach())
        return type(fields)(*empty)

    def extra_repr(self) -> str:
        defaults = {"align": "additive", "heads": 1, "combine": "sum", "readout": "h"}
        shown = [f"{name}={getattr(self, name)!r}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join([super().extra_repr(), *shown])


_types: dict[tuple[str, tuple[str, ...]], Any] = {}


def state_type(name: str, names: tuple[str, ...]) -> Any:
    """A NamedTuple with these fields, whose instances can be saved: a file names the fields, not the class."""
    if (name, names) not in _types:
        made = cast(Any, namedtuple)(name, names)  # the fields depend on the cell
        made.__reduce__ = lambda state: (restored_state, (name, names, tuple(state)))
        made.__module__ = __name__
        _types[name, names] = made
    return _types[name, names]


def restored_state(name: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """What a file calls to make such a state."""
    return state_type(str(name), tuple(map(str, names)))(*values)
