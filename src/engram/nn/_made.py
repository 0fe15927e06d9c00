"""What a layer is made with: the keywords it shows, those it refuses, and copies with other ones."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

import torch
from torch.nn.utils import parametrize

from engram.errors import OptionError, unknown
from engram.maps import Free, Map
from engram.nn._bare_cell import BareCell
from engram.nn._names import TorchNames
from engram.nn._options import full_signature
from engram.nn._parametrized import copy_weights, written_class

AnyLayer = TypeVar("AnyLayer", bound="Made")

SAVED_TYPES = (bool, int, float, str, tuple, torch.dtype, type(None))
"""Of what kinds the arguments are that a saved layer remembers, to be made again."""
NOW = (
    "input_size",
    "hidden_size",
    "num_layers",
    "bidirectional",
    "batch_first",
    "dropout",
    "output_all_layers",
    "return_sequence",
    "checkpoint_every",
    "check_finite",
)
"""Arguments that are attributes, and may have been changed since."""


class Signature:
    """A signature that a class shows, and its instances do not: those are called with an input."""

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature = signature

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return self.signature


def _makers(kind: type, base: type) -> list[Any]:
    """Every ``__init__`` from a class up to a base, each of which hands its options on to the next."""
    kinds = [k for k in kind.__mro__ if issubclass(k, base)]
    return [vars(k)["__init__"] for k in kinds if "__init__" in vars(k)]


class Made(TorchNames):
    """A module with cells that knows the arguments it was made with."""

    cell: ClassVar[type[BareCell]]
    matrix: ClassVar[type[Map] | None] = None
    """The map of the recurrent matrix, if the layer stands for one."""
    defaults: ClassVar[dict[str, Any]] = {}
    """Of keyword arguments that a subclass hands on, where they are not those of its base class."""
    without: ClassVar[tuple[str, ...]] = ()
    """Keyword arguments of the cell that mean nothing here, and are not shown."""
    made_with: dict[str, Any]
    __signature__: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        """Show every keyword in ``help()``, also those that are handed on."""
        super().__init_subclass__(**options)
        if hasattr(cls, "cell"):
            makers = [*_makers(cls, Made), *_makers(cls.cell, BareCell)]
            hidden = cls.without if cls.matrix is None else (*cls.without, "map")
            cls.__signature__ = Signature(full_signature(makers, cls.defaults, hidden))

    def __new__(cls, *args: Any, **options: Any) -> Self:
        layer = super().__new__(cls)
        names = cls.__signature__.parameters if hasattr(cls, "__signature__") else {}
        layer.__dict__["made_with"] = dict(zip(names, args, strict=False)) | options
        return layer

    def cell_parameters(self) -> Mapping[str, inspect.Parameter]:
        """What the cell is made with."""
        return full_signature(_makers(self.cell, BareCell)).parameters

    def check_names(self, options: dict[str, Any]) -> None:
        """Refuse what neither layer nor cell takes."""
        known, of_cell = type(self).__signature__.parameters, self.cell_parameters()
        for name in options:
            if name not in known and name not in of_cell:
                named = [n for n, p in known.items() if p.kind is p.KEYWORD_ONLY]
                raise unknown(f"option of {type(self).__name__}", name, named)

    def arguments(self) -> dict[str, Any]:
        """What the layer would be made with to be what it is now."""
        made, weight = dict(self.made_with), self.cells[0].reference_weight
        if self.matrix is None and "map" not in made:  # a file does not hold every kind of map
            for entry in getattr(self.cells[0], "parametrizations", {}).values():
                made["map"] = entry[0]
        now = {name: getattr(self, name) for name in NOW}
        return made | now | {"device": weight.device, "dtype": weight.dtype}

    @torch.no_grad()
    def replace(self, kind: "type[AnyLayer] | None" = None, /, **changes: Any) -> "AnyLayer":
        """A copy of the layer with other arguments; weights that keep their name and shape keep their numbers.

        ``layer.replace(batch_first=True)``, ``layer.replace(num_layers=1)``, ``layer.replace(map="cayley")``: a map
        refuses a matrix without its property. What does not fit is initialised anew. With a class the copy is
        a layer of that class, made with the arguments of the base that both have: ``layer.replace(RNN)``.
        """
        own = written_class(self) if parametrize.is_parametrized(self) else type(self)
        folded = self.matrix not in (None, Free) and not parametrize.is_parametrized(self.cells[0])
        if folded and (kind is None or kind is own):
            raise OptionError(
                f"a folded {own.__name__} has no map any more: replace the layer before it is folded, or make it "
                "an RNN with replace(engram.nn.RNN)"
            )
        options, made = self.arguments(), cast("type[AnyLayer]", kind or own)
        if kind is not None and kind is not own:
            common: Any = next(base for base in own.__mro__ if issubclass(kind, base))
            known = full_signature(_makers(common, Made)).parameters
            options = {name: value for name, value in options.items() if name in known and name != "map"}
        other = made(**(options | changes))
        theirs = dict(other.named_cells())
        for (suffix, _), cell in zip(self.named_cells(), self._run_cells(), strict=True):
            if suffix in theirs:
                copy_weights(cell, theirs[suffix])
        return other.train(self.training)

    def __getstate__(self) -> dict[str, Any]:
        """Of the arguments, those that a file can hold."""
        plain = {name: value for name, value in self.made_with.items() if isinstance(value, SAVED_TYPES)}
        return {**self.__dict__, "made_with": plain}
