"""The optimiser of a run, its rates, and how they change from step to step."""

from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Self

from engram.errors import DTypeError, OptionError, check_choice, check_number, check_size, unknown

OPTIMISERS: dict[str, tuple[str, ...]] = {
    "adam": ("betas", "eps"),
    "adamw": ("betas", "eps"),
    "rmsprop": ("alpha", "momentum", "eps"),
    "sgd": ("momentum",),
}
"""The settings that each one has of its own."""
SCHEDULES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "plateau": ("plateau",),
    "step": ("step_size",),
    "cosine": ("cosine_end", "cosine_steps"),
}
"""The settings that only this schedule has."""
OWN = {"alpha": 0.99, "betas": (0.9, 0.999), "momentum": None, "eps": 1e-8}
"""The defaults of what only some optimisers have."""


@dataclass(frozen=True)
class Group:
    """Parameters whose name matches a pattern, with a rate and a decay of their own."""

    pattern: str = ""
    """As in a shell, of the whole name: ``head.*``, ``*bias*``."""
    lr: float | None = None
    """Default: that of the parameters without the group."""
    weight_decay: float | None = None
    """Default: that of the parameters without the group."""

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise DTypeError(f"pattern must be a text such as head.*, got {self.pattern!r}")
        if self.lr is not None:
            _check_positive("lr of a group", self.lr)
        if self.weight_decay is not None:
            _check_not_negative("weight_decay of a group", self.weight_decay)

    def __str__(self) -> str:
        """What :meth:`read` reads."""
        rate = "" if self.lr is None else f" lr={self.lr}"
        return self.pattern + rate + ("" if self.weight_decay is None else f" decay={self.weight_decay}")

    @classmethod
    def read(cls, text: str) -> Self:
        """A group of the command line.

        >>> Group.read("head.* lr=1e-4 decay=0")
        Group(pattern='head.*', lr=0.0001, weight_decay=0.0)
        """
        pattern, *pairs = text.split() or [""]
        values: dict[str, float] = {}
        for name, _, value in (pair.partition("=") for pair in pairs):
            key = {"decay": "weight_decay"}.get(name, name)
            if key not in ("lr", "weight_decay"):
                raise unknown("value of --group", name, ("lr", "decay"))
            try:
                values[key] = float(value)
            except ValueError:
                raise OptionError(f"{name} of --group {pattern} must be a number, got {value!r}") from None
        return cls(pattern, **values)


@dataclass(frozen=True)
class Optimiser:
    """Which optimiser, at which rates. ``Optimiser("rmsprop", lr=1e-3, alpha=0.9, schedule="cosine")``."""

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = "adam"
    """adam, adamw, rmsprop or sgd."""
    lr: float = 2e-3
    """The learning rate."""
    lr_orthogonal: float | None = None
    """The rate of orthogonal parameters; default: a tenth of lr."""
    weight_decay: float = 0.0
    """Weight decay of the parameters that are not orthogonal."""
    clip: float = 1.0
    """Bound on the gradient norm of the parameters that are not orthogonal; 0 for none."""
    alpha: float = 0.99
    """Smoothing constant of rmsprop."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Smoothing constants of adam and adamw."""
    momentum: float | None = None
    """Momentum of sgd (default: 0.9) and rmsprop (default: 0)."""
    eps: float = 1e-8
    """Added to the denominator of adam, adamw and rmsprop."""
    schedule: Literal["constant", "plateau", "step", "cosine"] | None = None
    """How the rates change; default: plateau if plateau is set, step if step_size is, else constant."""
    plateau: int = 0
    """Schedule plateau: after this many validations without a better score, multiply the rates by plateau_factor."""
    plateau_factor: float = 0.5
    """The factor of the schedule plateau."""
    step_size: int = 0
    """Schedule step: at every n-th optimiser step, multiply the rates by step_factor."""
    step_factor: float = 0.1
    """The factor of the schedule step."""
    cosine_end: float = 0.0
    """Schedule cosine: the rates fall along half a cosine to this share of themselves."""
    cosine_steps: int | None = None
    """Schedule cosine: in this many steps; default: all steps of the run."""
    warmup: int = 0
    """Steps in which the rates first rise linearly, whatever the schedule; 0 for none."""
    groups: tuple[Group, ...] = ()
    """Parameters with rates of their own; the first pattern that matches a name counts."""

    def __post_init__(self) -> None:
        check_choice("optimizer", self.name, OPTIMISERS)
        for name in ("lr", "eps", *(("lr_orthogonal",) if self.lr_orthogonal is not None else ())):
            _check_positive(name, getattr(self, name))
        for name in ("weight_decay", "clip"):
            _check_not_negative(name, getattr(self, name))
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise DTypeError(f"betas must be two numbers, got {self.betas!r:.60}")
        smoothings = [("alpha", self.alpha), *(("betas", beta) for beta in self.betas)]
        for name, value in [*smoothings, *([("momentum", self.momentum)] if self.momentum is not None else [])]:
            if not 0 <= check_number(name, value) < 1:
                raise OptionError(f"{name} must be at least 0 and below 1, got {value}")
        for name, default in OWN.items():
            given = getattr(self, name)
            if given not in (default, 0 if name == "momentum" else default) and name not in OPTIMISERS[self.name]:
                kinds = " and ".join(kind for kind, own in OPTIMISERS.items() if name in own)
                raise OptionError(f"{name} is an option of {kinds}; the optimizer is {self.name}, got {name}={given}")
        if not isinstance(self.groups, tuple) or not all(isinstance(group, Group) for group in self.groups):
            raise DTypeError(f"groups must be a tuple of engram.train.Group, got {self.groups!r:.60}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        if self.schedule is not None:
            check_choice("schedule", self.schedule, SCHEDULES)
        for name in ("plateau", "step_size", "warmup"):
            check_size(name, getattr(self, name), least=0)
        for name in ("plateau_factor", "step_factor"):
            if not 0 < check_number(name, getattr(self, name)) < 1:
                raise OptionError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        if not 0 <= check_number("cosine_end", self.cosine_end) <= 1:
            raise OptionError(f"cosine_end must be a share of the rate, from 0 to 1, got {self.cosine_end}")
        if self.cosine_steps is not None:
            check_size("cosine_steps", self.cosine_steps)
        chosen = self.schedule_name
        for schedule, names in SCHEDULES.items():
            for name in names:
                if getattr(self, name) and schedule != chosen:
                    raise OptionError(f"{name} is an option of the schedule {schedule}; the schedule is {chosen}")
        if chosen == "plateau" and not self.plateau:
            raise OptionError("the schedule plateau needs plateau, the validations without a better score it waits for")
        if chosen == "step" and not self.step_size:
            raise OptionError("the schedule step needs step_size, the optimiser steps between two rates")

    @property
    def schedule_name(self) -> str:
        """The schedule given, or else the one that a number was given for."""
        return self.schedule or ("plateau" if self.plateau else "step" if self.step_size else "constant")

    def own(self) -> dict[str, Any]:
        """The arguments that only this optimiser has."""
        values = {name: getattr(self, name) for name in OPTIMISERS[self.name]}
        if "momentum" in values:
            values["momentum"] = self.default_momentum if self.momentum is None else self.momentum
        return values

    @property
    def default_momentum(self) -> float:
        return 0.9 if self.name == "sgd" else 0.0


def _check_positive(name: str, value: object) -> None:
    if not 0 < check_number(name, value) < inf:
        raise OptionError(f"{name} must be positive, got {value}")


def _check_not_negative(name: str, value: object) -> None:
    if not 0 <= check_number(name, value) < inf:
        raise OptionError(f"{name} must not be negative, got {value}")
