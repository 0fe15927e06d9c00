"""How long a run trains, on how much, and when it stops."""

from dataclasses import dataclass
from math import isnan

from engram.errors import DTypeError, OptionError, check_number, check_size


@dataclass(frozen=True)
class Budget:
    """How long, on how much, and when to stop."""

    steps: int | None = None
    """Optimiser steps; default: 1000, or one epoch of a data set."""
    epochs: int | None = None
    """Passes through a data set, in place of steps."""
    batch: int = 64
    """Sequences per step."""
    samples: int = 0
    """Number of training sequences, used again in every epoch; 0: new ones at each step, or the whole data set."""
    valid_samples: int | None = None
    """Sequences per validation; default: 256, or all of a data set (0)."""
    test_samples: int | None = None
    """Sequences of the test; default: 1024, or all of a data set (0)."""
    validate_every: int | None = None
    """Steps between validations; default: 100, or one epoch of a data set; 0: no validation."""
    patience: int = 0
    """Stop after this many validations without a better score; 0: never."""
    stop_by: str = "loss"
    """The validation score that is to get better: loss, or a metric of the task; used by patience and plateau."""
    stop_at: float | None = None
    """Stop as soon as the score of stop_by is this good in a validation, such as 0.995; default: never."""

    def __post_init__(self) -> None:
        check_size("batch", self.batch)
        for name in ("samples", "patience"):
            check_size(name, getattr(self, name), least=0)
        optional = {"steps": 0, "epochs": 1, "validate_every": 0, "valid_samples": 0, "test_samples": 0}
        for name, least in optional.items():
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name), least)
        if self.steps is not None and self.epochs is not None:
            raise OptionError(f"give steps or epochs, not both; got {self.steps} and {self.epochs}")
        if self.stop_at is not None and isnan(check_number("stop_at", self.stop_at)):
            raise OptionError("stop_at must be a number to compare with, got nan")
        if not isinstance(self.stop_by, str) or not self.stop_by:
            raise DTypeError(f"stop_by must be the name of a score, such as loss or accuracy; got {self.stop_by!r}")
