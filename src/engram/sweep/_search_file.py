"""A search, as its sweep file says it: which settings are tried, judged by which score, and which trials end early."""

from dataclasses import dataclass, field
from typing import Any

from engram.errors import OptionError, check_flag, check_number

SAMPLERS = ("tpe", "random")
PRUNERS = ("halving", "median")


@dataclass(frozen=True)
class Range:
    """The values of one setting: from ``low`` to ``high``, both included, or one of ``choices``."""

    low: float = 0
    high: float = 0
    log: bool = False
    """Whether the logarithm is sampled evenly."""
    step: float | None = None
    """The distance of two values, from ``low`` on."""
    choices: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.choices:
            return
        if not check_number("low", self.low) < check_number("high", self.high):
            raise OptionError(f"low must be below high, got {self.low} and {self.high}")
        if check_flag("log", self.log) and (self.low <= 0 or self.step is not None):
            raise OptionError("log needs a low above 0, and no step")
        if self.step is not None and not check_number("step", self.step) > 0:
            raise OptionError(f"step must be positive, got {self.step}")

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers: those of the file are."""
        return all(isinstance(value, int) for value in (self.low, self.high, self.step or 0))

    def extremes(self) -> tuple[Any, ...]:
        """Values that show whether all of them can be settings."""
        return self.choices or (self.low, self.high)


@dataclass(frozen=True)
class Search:
    """The table ``[search]``."""

    space: dict[str, Range] = field(default_factory=dict)
    """By the names of the flags, in the order of the file, in which they are sampled."""
    trials: int = 20
    """How many points of the space are tried."""
    parallel: int = 4
    """Trials that are asked for at once. It belongs to the file: a trial knows the results of the batches before its
    own and no others, so that what is tried depends neither on the engine nor on who is done first."""
    sampler: str = "tpe"
    """The method of optuna that chooses the next points: tpe or random."""
    seed: int = 0
    """Of the sampler; the seeds of the runs are those of the file, and the value of a trial is their mean."""
    metric: str = "valid_loss"
    """``valid_NAME``: of the best validation; ``SPLIT_NAME``: of a test."""
    direction: str = ""
    """minimize or maximize; default: by the name of the score."""
    rungs: tuple[int, ...] = ()
    """Steps at which trials are compared, and the worse end."""
    pruner: str = "halving"
    """halving: of each batch the best go on; median: a trial ends if it is worse than the median of earlier ones."""
    keep: float = 0.5
    """Halving: the share of a batch that goes on, at least one."""
