"""The settings of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from engram.errors import DTypeError, check_flag, check_size, unknown
from engram.nn import MODELS, NETWORKS

MOST = {"hidden": 10**6, "embedding": 10**6, "layers": 1000}
"""More than any network of today has."""


@dataclass(frozen=True)
class Model:
    """A network by name, with its sizes. ``Model("scornn", hidden=64, options={"rho": 3})``; checked when made."""

    name: str = "exprnn"
    """A name of `engram list models`."""
    hidden: int = 128
    """N, the hidden units of a layer."""
    layers: int = 1
    """Layers on top of each other."""
    embedding: int | None = None
    """The size of the embedding of symbols; default: the paper's. 0 for one-hot."""
    readout_bias: bool = True
    """Whether the linear read-out has a bias."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the model's class: activation, dropout, rho."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in {**MODELS, **NETWORKS}:
            raise unknown("model", self.name, [*MODELS, *NETWORKS])
        check_size("hidden", self.hidden, most=MOST["hidden"])
        check_size("layers", self.layers, most=MOST["layers"])
        if self.embedding is not None:
            check_size("embedding", self.embedding, 0, MOST["embedding"])
        check_flag("readout_bias", self.readout_bias)
        if not isinstance(self.options, dict) or not all(isinstance(name, str) for name in self.options):
            raise DTypeError(f"options must be values by name, such as {{'rho': 3}}; got {self.options!r:.60}")

    @property
    def label(self) -> str:
        """A short name, for titles and folders."""
        return self.name.rpartition(":")[2]

    def to_dict(self) -> dict[str, Any]:
        """For run.json and TOML: ``from_dict`` gives the same model back."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: dict[str, Any], allow: Sequence[str] = ()) -> Self:
        """A model out of run.json or a TOML file, whose lists are tuples here."""
        known = [each.name for each in fields(cls)]
        for name in values:
            if name not in known:
                raise unknown("setting of [model]", name, known)
        options = values.get("options", {})
        if isinstance(options, dict):
            options = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
        return cls(**{**values, "options": options})
