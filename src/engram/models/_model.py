"""The settings of a model: a name, sizes and options."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Self

from torch import nn

from engram.errors import DTypeError, OptionError, check_choice, check_flag, check_number, check_size, unknown
from engram.imports import check_allowed, full_name, is_outside, load_class
from engram.models._options import SET_BY_RUN, SIZES, default_hidden, options_of, parameters_of
from engram.models._registry import MODELS, model_class

MOST_UNITS, MOST_LAYERS = 10**6, 1000
"""More than any network of today has."""
ENCODERS = ("learned", "random")
CONTEXTS = ("off", "whole", "segmented")
NEUTRAL = {"encoder": ("", "learned"), "context": ("off",), "l1": (0.0,), "l1_on": ("codes",)}
"""Values of settings that came later and change nothing: hashes leave them out, and stay what they were before."""


def decisive(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model, as :meth:`Model.to_dict` gives them, without those that change nothing."""
    return {name: value for name, value in values.items() if value not in NEUTRAL.get(name, ())}


def read_segments(text: str) -> tuple[int, ...] | None:
    """The lengths in "3+2+4"; None if it is no such text.

    >>> read_segments("3+2+4")
    (3, 2, 4)
    """
    parts = text.split("+")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else None


@dataclass(frozen=True)
class Model:
    """Which model, how large, with which options; checked when made.

    ``Model("nnrnn", hidden=128, options={"activation": "tanh"})``; ``Model("mymodel.py:MyModel")`` imports that file.
    """

    name: str = "exprnn"
    """A name of `engram list models`, or package.module:Class, or file.py:Class."""
    hidden: int = None  # type: ignore[assignment]  # a number from the moment it is made
    """N, the hidden units of a layer; default: the model's own, mostly 128."""
    layers: int = 1
    """Layers on top of each other."""
    embedding: int | None = None
    """The size of the embedding of symbols or images; default: that of the task's paper. 0: one-hot, plain pixels."""
    readout_bias: bool = True
    """Whether the linear read-out has a bias."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the class."""
    encoder: str = ""
    """The encoder of images: learned, random (frozen as initialised), or package.module:Class or file.py:Class of your
    own; default: learned."""
    context: str = ""
    """Normalise codes over the steps of a sequence: off, whole, segmented (as the task says), or lengths such as
    3+2+4; default: that of the task's papers."""
    l1: float = 0.0
    """The strength of an L1 penalty on a linear layer after the encoder; 0: no such layer."""
    l1_on: str = "codes"
    """What the L1 penalty is on: codes, or the weights of that layer."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DTypeError(f"model must be a name such as exprnn or file.py:Class, got {self.name!r:.60}")
        if is_outside(self.name):
            object.__setattr__(self, "name", full_name(self.name))  # found from any folder
        elif self.name not in MODELS:
            raise unknown("model", self.name, MODELS)
        if self.hidden is None:
            object.__setattr__(self, "hidden", default_hidden(self.kind))
        check_size("hidden", self.hidden, most=MOST_UNITS)
        check_size("layers", self.layers, most=MOST_LAYERS)
        if self.embedding is not None:
            check_size("embedding", self.embedding, least=0, most=MOST_UNITS)
        self._check_codes()
        check_flag("readout_bias", self.readout_bias)
        object.__setattr__(self, "options", self._checked_options())

    def _check_codes(self) -> None:
        """Refuse what no encoder, context or penalty is."""
        for name in ("encoder", "context", "l1_on"):
            if not isinstance(getattr(self, name), str):
                raise DTypeError(f"{name} must be a text, got {getattr(self, name)!r:.60}")
        if is_outside(self.encoder):
            object.__setattr__(self, "encoder", full_name(self.encoder))
        elif self.encoder not in ("", *ENCODERS):
            raise unknown("encoder", self.encoder, [*ENCODERS, "file.py:Class"])
        if self.context and self.context not in CONTEXTS and read_segments(self.context) is None:
            raise unknown("context", self.context, [*CONTEXTS, "lengths such as 3+2+4"])
        if not 0 <= check_number("l1", self.l1) < math.inf:
            raise OptionError(f"l1 must be a strength of at least 0, got {self.l1}")
        check_choice("l1_on", self.l1_on, ("codes", "weights"))

    def _checked_options(self) -> dict[str, Any]:
        if not isinstance(self.options, dict):
            raise DTypeError(f"options must be a dictionary such as {{'dropout': 0.1}}, got {self.options!r:.60}")
        known, is_open = options_of(self.kind), parameters_of(self.kind)[1]
        for name, value in self.options.items():
            if name in SET_BY_RUN:
                raise OptionError(f"option {name} is for your own programs; a run sets it itself")
            if name in SIZES and name not in known:
                raise OptionError(f"option {name} is a size, which a run gives itself: see hidden and layers")
            if name not in known and not is_open:
                raise unknown(f"option of {self.label}", name, known)
            if not _is_plain(value):
                raise DTypeError(f"option {name} must be a number, a text or a tuple of such, got {value!r:.60}")
        return {name: _tuples(value) for name, value in self.options.items()}

    @property
    def kind(self) -> type[nn.Module]:
        """The class. One outside engram is imported."""
        return model_class(self.name)

    @property
    def outside(self) -> dict[str, type[nn.Module]]:
        """The classes outside engram that it names, core and encoder, by their names."""
        found = {self.name: self.kind} if is_outside(self.name) else {}
        return found | ({self.encoder: load_class(self.encoder, nn.Module)} if is_outside(self.encoder) else {})

    @property
    def label(self) -> str:
        """A short name, for titles and folders: of a class outside engram that of the class."""
        return self.name.rpartition(":")[2]

    def to_dict(self) -> dict[str, Any]:
        """For run.json and TOML: :meth:`from_dict` gives the same back."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: dict[str, Any], allow: Iterable[str] = ()) -> Self:
        """A model out of a file; a class outside engram is refused unless ``allow`` has its package or its file."""
        if not isinstance(values, dict):
            raise DTypeError(f"model must be a table with a name and sizes, got {values!r:.60}")
        known = [each.name for each in fields(Model)]
        for name in values:
            if name not in known:
                raise unknown("setting of [model]", name, known)
        for each in ("name", "encoder"):
            if isinstance(name := values.get(each, ""), str):
                check_allowed(name, allow)
        return cls(**values)


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold it."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _tuples(value: Any) -> Any:
    """JSON and TOML know lists only: an option is the same before and after."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
