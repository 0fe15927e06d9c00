"""The settings of a model: a name, sizes and options."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Self

from torch import nn

from engram.errors import DTypeError, OptionError, check_flag, check_size, unknown
from engram.imports import check_allowed, full_name, is_outside
from engram.models._options import SET_BY_RUN, SIZES, options_of, parameters_of
from engram.models._registry import MODELS, model_class

MOST_UNITS, MOST_LAYERS = 10**6, 1000
"""More than any network of today has."""


@dataclass(frozen=True)
class Model:
    """Which model, how large, with which options; checked when made.

    ``Model("nnrnn", hidden=128, options={"activation": "tanh"})``; ``Model("mymodel.py:MyModel")`` imports that file.
    """

    name: str = "exprnn"
    """A name of `engram list models`, or package.module:Class, or file.py:Class."""
    hidden: int = 128
    """N, the hidden units of a layer."""
    layers: int = 1
    """Layers on top of each other."""
    embedding: int | None = None
    """The size of the embedding of symbols or images; default: the paper's of the task. 0: one-hot, plain pixels."""
    readout_bias: bool = True
    """Whether the linear read-out has a bias."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the class."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DTypeError(f"model must be a name such as exprnn or file.py:Class, got {self.name!r:.60}")
        if is_outside(self.name):
            object.__setattr__(self, "name", full_name(self.name))  # found from any folder
        elif self.name not in MODELS:
            raise unknown("model", self.name, MODELS)
        check_size("hidden", self.hidden, most=MOST_UNITS)
        check_size("layers", self.layers, most=MOST_LAYERS)
        if self.embedding is not None:
            check_size("embedding", self.embedding, least=0, most=MOST_UNITS)
        check_flag("readout_bias", self.readout_bias)
        object.__setattr__(self, "options", self._checked_options())

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
        if isinstance(name := values.get("name", ""), str):
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
