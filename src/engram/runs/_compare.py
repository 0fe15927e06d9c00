"""Several runs beside each other: what differs, how well they do over seeds, and what they cost."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from engram.errors import OptionError, RunError
from engram.files import printable
from engram.run_files import larger_is_better, read_metrics
from engram.runs._row import Row, read_row, with_actual_status

NOT_COMPARED = ("seed", "device", "threads", "save_every", "log_every", "probe_every", "tensorboard")
"""Settings that two runs of one group may have different: the seed, and what does not decide the result."""
FIRST = ("task", "model", "hidden", "layers", "delay", "length", "lr")
DERIVED = ("lr_orthogonal", "cosine_steps", "embedding", "validate_every")
"""What people look for first in what differs, and what mostly follows from other settings."""
Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Spread:
    """A number over the runs of a group."""

    mean: float
    """Over the runs that have it."""
    deviation: float | None
    """Standard deviation of the sample; None of one run."""
    least: float
    """The smallest."""
    most: float
    """The largest."""
    count: int
    """How many runs have it."""

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """Of those values that are there."""
        found = [value for value in values if value is not None]
        if not found:
            return None
        deviation = stdev(found) if len(found) > 1 else None
        return cls(fmean(found), deviation, min(found), max(found), len(found))


@dataclass(frozen=True)
class ComparedRun:
    """A run with its curves: points (step, value) by split and score."""

    folder: Path
    """Its directory."""
    row: Row
    """What a list of runs says of it."""
    curves: dict[str, dict[str, Points]]

    def curve(self, score: str) -> Points:
        """Over the validations, or where there were none over the training steps."""
        for split in ("valid", "train"):
            if points := self.curves.get(split, {}).get(score):
                return points
        return []


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed."""

    number: int
    """From 1, the best first, where scores can be compared."""
    label: str
    """The settings in which it differs from the others, in words."""
    settings: dict[str, Any]
    """Those settings by name; None where a run has no such setting."""
    runs: tuple[ComparedRun, ...]
    """In the order in which they were given."""
    score: Spread | None
    """The metric of the task; this and the next three are None if no run has it."""
    loss: Spread | None
    """The loss of the best weights."""
    seconds: Spread | None
    """Of training."""
    steps: Spread | None
    """Optimiser steps that were made."""
    parameters: int | None
    """Trainable numbers of the network."""

    @property
    def first(self) -> Row:
        """The row of its first run: task, model and metric are those of all."""
        return self.runs[0].row

    def median(self, score: str) -> Points:
        """The median over its runs at each step that at least half of them have reached."""
        found: dict[int, list[float]] = {}
        for run in self.runs:
            for step, value in run.curve(score):
                found.setdefault(step, []).append(value)
        return [(step, median(values)) for step, values in sorted(found.items()) if 2 * len(values) >= len(self.runs)]


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_runs` finds."""

    groups: tuple[Group, ...]
    """The best first, where scores can be compared."""
    differs: tuple[str, ...]
    """The settings in which groups differ."""

    @property
    def runs(self) -> list[ComparedRun]:
        return [run for group in self.groups for run in group.runs]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(run.row.task for run in self.runs))

    @property
    def metrics(self) -> list[str]:
        """The metrics that people quote for these tasks."""
        return list(dict.fromkeys(run.row.metric for run in self.runs if run.row.metric not in ("", "loss")))


def compare_runs(folders: Sequence[Path | str]) -> Comparison:
    """Put runs into groups that differ in nothing but the seed, and compare the groups.

    Nothing that a run directory names is imported. A run that is damaged is refused; one without metrics has no curve.
    """
    runs = [_read(folder) for folder in dict.fromkeys(map(Path, folders))]
    if not runs:
        raise OptionError("there is no run to compare")
    found: dict[tuple[Any, ...], list[ComparedRun]] = {}
    for run in runs:
        found.setdefault(_decisive(run.row), []).append(run)
    groups = list(found.values())
    names = dict.fromkeys(name for group in groups for name in group[0].row.settings if name not in NOT_COMPARED)
    differs = [name for name in names if len({repr(group[0].row.settings.get(name)) for group in groups}) > 1]
    differs.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST) + (name in DERIVED))
    groups.sort(key=_rank if len({run.row.metric for run in runs}) == 1 else lambda group: 0.0)
    return Comparison(tuple(_group(k, group, differs) for k, group in enumerate(groups, 1)), tuple(differs))


def _read(folder: Path) -> ComparedRun:
    row = with_actual_status(read_row(folder, str(folder)), folder)
    if row.status == "damaged":
        raise RunError(f"{printable(str(folder))} cannot be compared: {row.reason}")
    path = folder / "metrics.jsonl"
    try:
        lines = read_metrics(path)
    except (ValueError, TypeError) as error:
        raise RunError(f"{printable(str(path))} cannot be read ({error}): it was changed by another program") from None
    curves: dict[str, dict[str, Points]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in ("step", "split", "seconds", "lr") and math.isfinite(value):
                curves.setdefault(line["split"], {}).setdefault(name, []).append((line["step"], value))
    return ComparedRun(folder, row, curves)


def _decisive(row: Row) -> tuple[Any, ...]:
    return tuple(sorted((name, repr(value)) for name, value in row.settings.items() if name not in NOT_COMPARED))


def _rank(group: list[ComparedRun]) -> float:
    """The best mean score first, those without one last."""
    row, score = group[0].row, _group(0, group, ()).score
    if score is None:
        return math.inf
    return -score.mean if larger_is_better(row.metric) else score.mean


def _group(number: int, runs: list[ComparedRun], differs: Sequence[str]) -> Group:
    rows = [run.row for run in runs]
    scored = [row for row in rows if row.scored_on != "valid"] or rows  # tests and validations are not mixed
    settings = {name: rows[0].settings.get(name) for name in differs}
    return Group(
        number,
        _label(rows, settings),
        settings,
        tuple(runs),
        score=Spread.of(row.score for row in scored),
        loss=Spread.of(row.loss for row in scored),
        seconds=Spread.of(row.seconds for row in rows),
        steps=Spread.of(row.step for row in rows),
        parameters=rows[0].parameters,
    )


def _label(rows: list[Row], settings: dict[str, Any]) -> str:
    """``exprnn, hidden 64``: words alone where they say what they are, numbers with their names."""
    words = [
        str(value) if name in ("task", "model", "optimizer") else f"{name} {_short(value)}"
        for name, value in settings.items()
        if value is not None
    ]
    return ", ".join(words) or printable(Path(rows[0].name).name if len(rows) == 1 else rows[0].model)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
