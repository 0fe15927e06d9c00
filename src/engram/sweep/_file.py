"""A sweep: which settings are tried."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from itertools import product
from math import prod
from typing import Any

from engram.errors import OptionError
from engram.models import MODELS, default_hidden, model_class
from engram.runs import Where
from engram.sweep._search_file import Search
from engram.tasks import TASKS, task_class
from engram.train import FLAT, GROUPS

MOST_RUNS = 10**6
DEFAULTS: dict[str, Any] = {
    name: each.default
    for name, (group, own) in FLAT.items()
    for each in fields(GROUPS[group])
    if each.name == own and each.default is not None and each.default is not MISSING
}
DEFAULTS["hidden"] = default_hidden(model_class(DEFAULTS["model"]))
"""What a condition sees of a setting that the file leaves alone; some models have another width (:func:`seen`)."""
Row = dict[str, Any]
"""The settings of one run by the names of the flags; ``parameters`` stands for a width, which is found from it."""


def seen(row: Row) -> Row:
    """What a condition sees: the values of a row, and the defaults of what it leaves alone."""
    model = row.get("model", DEFAULTS["model"])
    own = {"hidden": default_hidden(model_class(model))} if model in MODELS else {}  # others are not imported here
    if row.get("task") in TASKS:
        task = task_class(row["task"])
        own |= {**task.defaults} | ({"hidden": task.widths[model]} if model in task.widths else {})
    return {**DEFAULTS, **own, **row}


@dataclass(frozen=True)
class When:
    """A condition, and what it changes: other values, or no run."""

    condition: Where
    values: Row
    skip: bool


@dataclass(frozen=True)
class Ladder:
    """Values of one setting, tried one after another for as long as each is solved."""

    over: str
    values: tuple[Any, ...]
    solved: Where


@dataclass(frozen=True)
class SweepFile:
    """A sweep, as its file says it. :meth:`rows` are its runs.

    Names are those of the flags of ``engram train``. A value in the grid overrides one of the list, and that one of the
    base; conditions come last and override all.
    """

    name: str = "sweep"
    """The folder of the sweep; default: the name of the file."""
    base: Row = field(default_factory=dict)
    """What all runs share."""
    grid: dict[str, list[Any]] = field(default_factory=dict)
    """Values by name: every combination is a run."""
    list: tuple[Row, ...] = ()
    """Values that belong together: each entry is combined with every point of the grid."""
    seeds: tuple[int, ...] = (0,)
    """Every combination is trained with each of these; a number N stands for 0 to N - 1."""
    when: tuple[When, ...] = ()
    """Conditions, in order."""
    ladder: Ladder | None = None
    """For the longest delay that is solved: a larger value only after the one before was solved."""
    search: Search | None = None
    """In place of a grid: settings that a sampler chooses from what the ones before came to."""
    retries: int = 2
    """How often a run that failed is started again: one whose process died, say. A run that diverged is not."""
    together: bool = True
    """Whether runs that differ only in seed or rate may train as one batched model."""

    text: str = field(default="", repr=False, compare=False)
    """What the file says, for messages with a line."""

    def __post_init__(self) -> None:
        count = prod(len(values) for values in self.grid.values()) * max(1, len(self.list)) * len(self.seeds)
        count *= len(self.ladder.values) if self.ladder else 1
        if self.search is not None:
            if self.grid or self.list or self.ladder:
                raise OptionError(
                    "[search] takes the place of [grid], [[list]] and [ladder]: a file has one or the other"
                )
            count *= self.search.trials
        if count > MOST_RUNS:
            raise OptionError(f"the sweep has {count:,} runs, and at most {MOST_RUNS:,} are allowed: shorten its lists")

    @property
    def varied(self) -> tuple[str, ...]:
        """The names whose values differ from run to run, in the order of the file; the seed is last."""
        names = [name for row in self.list for name in row] + [*self.grid]
        names += [self.ladder.over] if self.ladder else []
        names += ["trial", *self.search.space] if self.search else []
        names += [name for when in self.when for name in when.values]
        return (*(name for name in dict.fromkeys(names) if name != "seed"), "seed")

    def rows(self) -> Iterator[tuple[Row, int, int]]:
        """The settings of every run; for a ladder also its number and the place on it, else -1 and 0."""
        number = -1
        for case in self.list or ({},):
            for values in product(*self.grid.values()):
                for seed in self.seeds:
                    row = {**self.base, **case, **dict(zip(self.grid, values, strict=True)), "seed": seed}
                    number += 1
                    if self.ladder is None:
                        yield from ((changed, -1, 0) for changed in self.conditions(row))
                        continue
                    for place, value in enumerate(self.ladder.values):
                        changed = self.conditions({**row, self.ladder.over: value})
                        yield from ((each, number, place) for each in changed)

    def conditions(self, row: Row) -> Iterator[Row]:
        """The row with what the conditions change in it; nothing if one of them skips it."""
        for when in self.when:
            if when.condition(seen(row)):
                if when.skip:
                    return
                row = {**row, **when.values}
        yield row
