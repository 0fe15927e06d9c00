"""What every recurrence has: sizes, parameters and their initial distributions, a declared state, a step, the loop."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from engram import loops
from engram.errors import DataError, check_choice, check_size
from engram.maps import Free, Map, mapped_weights, without_autocast
from engram.nn._parametrized import restore_class, with_built_weights, written_class
from engram.nn.laws import Constant, Law, Uniform
from engram.state import Field, Fields, State, carried, check_fields, each, named_fields, parts

_fields: "WeakKeyDictionary[BareCell, Fields]" = WeakKeyDictionary()  # not in the cell: nothing to pickle or to copy


class BareCell(nn.Module, ABC):
    """The base of every recurrence, without any weight; :class:`Cell` is the one with a recurrent matrix.

    A cell of your own declares its weights, and defines :meth:`drive` and :meth:`step`::

        class DecayCell(engram.nn.BareCell):
            equation = "h_t = a h_{t-1} + x_t, a = sigmoid(decay), one number per unit"

            def __init__(self, input_size, hidden_size, **options):
                super().__init__(input_size, hidden_size, **options)
                self.declare("decay", hidden_size, law=engram.nn.laws.Constant(2.0))

            def drive(self, input):
                return input

            def step(self, drive, state):
                return torch.sigmoid(self.decay) * state + drive

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        initial_state (str): ``zero``, or ``trained``, a parameter; a cell may have further names in ``starts``.
            Default: ``zero``.
        laws (dict or None): initial distributions by parameter name, which override the cell's own
            (:mod:`engram.nn.laws`). Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Class attributes:
        equation: the recurrence, as ``engram list models`` shows it.
        starts: the values that ``initial_state`` stands for.
    """

    equation: ClassVar[str] = ""
    count: ClassVar[str] = ""
    """The number of recurrent parameters of N units with D inputs, as a formula; default: that of the map."""
    step_cost: ClassVar[str] = "O(N^2)"
    matrix_moves_state: ClassVar[bool] = True
    """Whether a step is h_t = f(W_hh h_{t-1} + ...), so that the eigenvalues of W_hh tell how states grow and fade.
    False where W_hh is a rate of change, h_t = h_{t-1} + f(W_hh h_{t-1} + ...): the probe then takes the Jacobian."""
    own_run: ClassVar[str] = ""
    """What a :meth:`run` of its own does where there is no compiled loop, for :func:`engram.checks.explain`."""
    starts: ClassVar[dict[str, float]] = {"zero": 0.0, "trained": 0.0}

    _reference: Tensor  # without numbers, and in no file: the dtype and device of what is declared
    _changes: int = 0  # of attributes: torch.compile looks at this number, where it does not look into the loop

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        initial_state: str = "zero",
        laws: Mapping[str, Law] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.start_from = check_choice("initial_state", initial_state, self.starts)
        self.laws: dict[str, Law] = dict(laws or {})
        self.declared: list[str] = []
        self.register_buffer("_reference", torch.empty(0, device=device, dtype=dtype), persistent=False)
        for name, field in named_fields(check_fields(self.fields())):
            if field.trained:
                self.declare(_start(name), *field.shape, law=Constant(field.initial))
            else:
                self.register_parameter(_start(name), None)

    def declare(
        self,
        name: str,
        *shape: int,
        law: Law | None = None,
        map: Map | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Add a parameter, and initialise it.

        Args:
            name: of the parameter.
            shape: its size along each axis.
            law: its initial distribution. Default: None, U(-1/sqrt(H), 1/sqrt(H)), as in torch.nn.RNN.
            map: a map under which a square matrix stands, and which samples it. Default: None.
            dtype: Default: None, that of the cell.
        """
        self.laws.setdefault(name, law or Uniform())
        self.declared.append(name)
        if map is not None and type(map) is not Free:
            map.install(self, name, device=self._reference.device, dtype=self._reference.dtype)
            return
        self.register_parameter(name, nn.Parameter(self._reference.new_empty(shape, dtype=dtype)))
        self._initialise(name)

    @torch.no_grad()
    def _initialise(self, name: str) -> None:
        self.laws[name](self._parameters[name], self)  # type: ignore[arg-type]

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Sample all weights again, from their initial distributions."""
        for name in self.declared:
            if self._parameters.get(name) is not None:
                self._initialise(name)
        if parametrize.is_parametrized(self):
            for name, (map, free) in zip(self.parametrizations, mapped_weights(self), strict=True):  # type: ignore[arg-type]
                setattr(self, name, map.sample(device=free[0].device, dtype=getattr(self, name).dtype))

    @property
    def reference_weight(self) -> Tensor:
        """A tensor that has the dtype and the device of the cell."""
        own = next(filter(_is_given, self._parameters.values()), None)
        return next(self.parameters(), self._reference) if own is None else own

    # The state.

    def fields(self) -> Fields:
        """What the state is made of: one :class:`engram.state.Field`, or a NamedTuple of them.

        Asked for by ``__init__`` of this class: what it reads besides the sizes is set before that is called.
        """
        return self.start_field(self.hidden_size)

    @property
    def known_fields(self) -> Fields:
        """:meth:`fields`, asked for once and after each change of an attribute."""
        if torch.compiler.is_compiling():  # which would look at all cells there are
            return self.fields()
        kept = _fields.get(self)
        if kept is None:
            kept = _fields[self] = self.fields()
        return kept

    def start_field(self, *shape: int) -> Field:
        """A field that starts as ``initial_state`` says."""
        return Field(*shape, initial=self.starts[self.start_from], trained=self.start_from == "trained")

    def initial_state(self, batch: int) -> State:
        """The state before the first step."""
        fields, weight = self.known_fields, self.reference_weight
        names = iter([_start(name) for name, _ in named_fields(fields)])

        def before(field: Field) -> Tensor:
            name = next(names)
            return getattr(self, name).expand(batch, *field.shape) if field.trained else field.before(batch, weight)

        return each(before, fields)

    @property
    def has_trained_start(self) -> bool:
        """Whether some field starts from a parameter."""
        return any(field.trained for field in parts(self.fields()))

    def carry(self, state: State) -> State:
        """What goes on into the next window of truncated training: all without history, growing memories emptied."""
        return carried(state, self.fields())

    # The recurrence.

    @abstractmethod
    def drive(self, input: Tensor) -> Any:
        """What the input gives to each step, for all steps at once: ``(..., D)`` to ``(..., G)``, or a tuple of such.

        Random numbers of a step (units that are dropped, say) are sampled here, before the loop, with torch's
        generator, which a run seeds from its own seed and the number of the step.
        """

    @abstractmethod
    def step(self, drive: Any, state: State) -> State:
        """One step: drive ``(B, G)`` and state ``(B, *shape)`` to a new state; nothing is changed in place."""

    def output(self, state: State) -> Tensor:
        """What the layer above sees of a state: the state, or its first field."""
        first: Tensor = parts(state)[0]
        return first

    @property
    def output_size(self) -> int:
        """The number of features of :meth:`output`."""
        return self.hidden_size

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        """All steps: outputs ``(T, B, H)`` (or packed rows, with ``sizes``) and the last state.

        Traced, planned and compiled by :mod:`engram.loops`. A matrix under a map is built once, not at every step.
        """
        return loops.loop(with_built_weights(self), input, state, sizes, reverse)

    def with_built_weights(self) -> Self:
        """A view of this cell in which every matrix under a map is a plain tensor, built now."""
        return with_built_weights(self)

    def last(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> State:
        """The last state of :meth:`run` alone, of which nothing is kept: the backward pass runs the steps again."""
        final = loops.last(with_built_weights(self), input, state, sizes, reverse)
        if final is None:
            return checkpoint(lambda *a: self.run(*a)[1], input, state, sizes, reverse, use_reentrant=False)
        return final

    def penalty(self) -> Tensor:
        """What the maps of this cell add to a training loss; zero for those without a soft constraint."""
        total = self.reference_weight.new_zeros(()).real
        with without_autocast(total):
            for map, free in mapped_weights(self):
                total = total + map.penalty(*free)
        return total

    # What torch does with modules.

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """``.double()`` and ``.to(torch.float64)`` set the precision of a complex cell, which stays complex.

        Of 16 bits there are no complex numbers to compute with: ``.half()`` and ``.bfloat16()`` leave it at complex64.
        """
        _fields.pop(self, None)  # they may depend on the dtype
        weight = self.reference_weight
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

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "training":
            self._forget()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget()

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        super().register_parameter(name, param)
        self._forget()

    def _forget(self) -> None:
        """What is known of the cell was of other options."""
        loops.forget(self)
        _fields.pop(self, None)
        self.__dict__["_changes"] = self._changes + 1

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not parametrize.is_parametrized(self):
            return super().__reduce_ex__(protocol)
        return empty_cell, (written_class(self),), dict(self.__dict__)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        restore_class(self)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def _is_given(parameter: Tensor | None) -> bool:
    return parameter is not None


def _start(field: str) -> str:
    """The parameter that a trained field starts from."""
    return f"start_{field}" if field else "start"


def empty_cell(kind: type[BareCell]) -> BareCell:
    """What a file calls to make a cell with parametrized weights, before it is filled. It makes nothing but cells."""
    if not (isinstance(kind, type) and issubclass(kind, BareCell)):
        raise DataError(f"a cell in a file must be of a subclass of engram.nn.BareCell, got {kind!r}")
    return kind.__new__(kind)
