"""A run in one line: read out of its directory slowly and carefully, without importing anything that it names."""

import math
import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from engram.errors import FileError
from engram.files import one_line, read_json
from engram.run_files import RESULT, in_use, larger_is_better, read_metrics

MOST, MOST_LINES = 2**20, 2**26
"""Bytes of run.json and of metrics.jsonl that are read for a list: a usual run.json has 3,000."""
LONGEST = 300
"""Letters of a text in a row."""
MOST_VALUES = 500
"""Settings and scores in a row."""
GROUPS = {"model": "model", "optimiser": "optimizer", "budget": "", "machine": ""}
"""The groups of settings; what ``name`` in them is called in a row: that of [model] is ``model``."""
STATUSES = ("new", "running", "killed", "stopped", "failed", "diverged", "done", "damaged")


@dataclass(frozen=True)
class Row:
    """What a list of runs says of one."""

    name: str
    """The folder, within the folder of runs."""
    status: str
    """new, running, killed (it says running, and nobody works on it), stopped, failed, diverged, done, damaged."""
    reason: str = ""
    """Why it is damaged, failed or stopped."""
    task: str = ""
    """The name of what was learned."""
    model: str = ""
    """The name of what learned it."""
    hidden: int | None = None
    """Units of a layer; this and what follows is None where run.json does not say it."""
    layers: int | None = None
    """Layers on top of each other."""
    seed: int | None = None
    """Of weights, data and dropout."""
    metric: str = ""
    """The score that people quote for this task."""
    score: float | None = None
    """That metric, as reached with the best weights."""
    scored_on: str = ""
    """test, or valid where no test was made yet."""
    chance: float | None = None
    """That metric without memory."""
    loss: float | None = None
    """The loss of the best weights, on the same split as the score."""
    memoryless_baseline: float | None = None
    """The loss without memory."""
    step: int | None = None
    """How far it is, in optimiser steps."""
    steps: int | None = None
    """How far it is to go."""
    parameters: int | None = None
    """Trainable numbers of the network."""
    seconds: float | None = None
    """Of training."""
    created: float | None = None
    """Seconds since 1970."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings by the names of the flags, with the options of task and model."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """All scores of the best weights by split: test_accuracy, valid_loss."""

    @property
    def age(self) -> float | None:
        """Seconds since it was made."""
        return None if self.created is None else max(0.0, time.time() - self.created)

    def get(self, name: str) -> Any:
        """What goes by this name: one of the above, a setting or a score; None where there is none."""
        if name in OWN:
            return getattr(self, name)
        if name in HEADS and name not in self.settings:
            return getattr(self, HEADS[name])
        return self.scores[name] if name in self.scores else self.settings.get(name)

    def flat(self) -> dict[str, Any]:
        """Everything by name."""
        return {**self.settings, **self.scores, **{name: getattr(self, name) for name in OWN}}


OWN = ("age", *(each.name for each in fields(Row) if each.name not in ("settings", "scores")))
"""Names that every row has."""
HEADS = {"run": "name", "size": "hidden", "time": "seconds"}
"""What else some of them are called: the heads of the columns of a list."""


def read_row(folder: Path, name: str) -> Row:
    """The row of a run directory, from its files: the truth that the index is compared with.

    A directory that cannot be read is a row too, with the status damaged.
    """
    try:
        facts = read_json(folder / "run.json", MOST, finite=False)
        return _row(folder, name, facts)
    except (FileError, OSError, ValueError, TypeError, KeyError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Row(name, "damaged", one_line(said, LONGEST), created=_changed(folder))


def with_actual_status(row: Row, folder: Path) -> Row:
    """The row, with the status ``killed`` for a run that says ``running`` though no process works on it."""
    if row.status != "running" or in_use(folder):
        return row
    return Row(**{**vars(row), "status": "killed"})


def _row(folder: Path, name: str, facts: Any) -> Row:
    if not isinstance(facts, dict) or not isinstance(facts.get("settings"), dict):
        raise FileError("run.json has no settings")
    if isinstance(facts["settings"].get("model"), str):
        raise FileError("it was made by engram 0.1, whose settings have no groups")
    status = facts.get("status")
    if status not in STATUSES:
        raise FileError(f"run.json has the status {status!r:.40}")
    settings = flat_settings(facts["settings"])
    results = facts["results"] if isinstance(facts.get("results"), dict) and status == "done" else {}
    best, seconds, step = facts.get("best"), facts.get("seconds"), facts.get("step")
    if status == "running" or seconds is None:
        measured, seconds, step = _measured(folder, settings.get("stop_by"))
        best = measured if status == "running" else best or measured
    splits = {split: found for split, found in {"valid": best, **results}.items() if isinstance(found, dict)}
    scores = {
        _key(f"{split}_{score}"): _plain(value)
        for split, found in splits.items()
        for score, value in found.items()
        if score != "step"
    }
    metric, split = _text(facts.get("metric")), next((each for each in ("test", *results) if each in results), "valid")
    reached = splits.get(split, {})
    return Row(
        name,
        "diverged" if status == "failed" and _diverged(folder, facts) else status,
        one_line(str(facts.get("reason") or ""), LONGEST),
        task=_text(settings.get("task")),
        model=_text(settings.get("model")),
        hidden=_whole(settings.get("hidden")),
        layers=_whole(settings.get("layers")),
        seed=_whole(settings.get("seed")),
        metric=metric,
        score=_number(reached.get(metric)),
        scored_on=split if reached else "",
        chance=_number(facts.get("chance")),
        loss=_number(reached.get("loss")),
        memoryless_baseline=_number(facts.get("memoryless_baseline")),
        step=_whole(step),
        steps=_whole(settings.get("steps")),
        parameters=_whole(facts.get("parameters")),
        seconds=_number(seconds),
        created=_when(facts.get("created"), folder),
        settings=settings,
        scores=dict(list(scores.items())[:MOST_VALUES]),
    )


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of run.json by the names of the flags, with the options of task and model among them.

    An option whose name another setting has already is found as ``task_NAME`` or ``model_NAME``.
    """
    found: dict[str, Any] = {"seed": settings.get("seed")}
    for group, own in GROUPS.items():
        values = settings.get(group)
        for name, value in values.items() if isinstance(values, dict) else ():
            if name != "options":
                found.setdefault((own or name) if name == "name" else _key(name), _plain(value))
    task, model = settings.get("task"), settings.get("model")
    if isinstance(task, dict):
        found["task"] = _plain(task.get("name"))
        _add(found, "task", {name: value for name, value in task.items() if name != "name"})
    if isinstance(model, dict) and isinstance(model.get("options"), dict):
        _add(found, "model", model["options"])
    return dict(list(found.items())[:MOST_VALUES])


def _add(found: dict[str, Any], whose: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        key = _key(name)
        found[f"{whose}_{key}" if key in found else key] = _plain(value)


def _measured(folder: Path, stop_by: Any) -> tuple[Any, Any, Any]:
    """Best validation, seconds and step out of metrics.jsonl, of a run that has not noted them (yet)."""
    try:
        lines = read_metrics(folder / "metrics.jsonl", MOST_LINES)
    except (FileError, OSError, ValueError, TypeError):
        return None, None, None
    direction, _, name = str(stop_by or "loss").rpartition(":")
    valid = [line for line in lines if line["split"] == "valid" and math.isfinite(line.get(name, math.nan))]
    larger = direction == "max" or (not direction and larger_is_better(name))
    best = (max if larger else min)(valid, key=lambda line: line[name], default=None)
    best = {key: value for key, value in best.items() if key not in ("split", "seconds")} if best else None
    return best, lines[-1].get("seconds") if lines else 0.0, lines[-1]["step"] if lines else 0


def _diverged(folder: Path, facts: dict[str, Any]) -> bool:
    """As the run says, or the sweep that it is of."""
    if isinstance(facts.get("diverged"), bool):
        return bool(facts["diverged"])
    try:
        result = read_json(folder / RESULT, MOST, finite=False)
    except (FileError, OSError):
        return False
    return isinstance(result, dict) and result.get("status") == "diverged"


def _when(created: Any, folder: Path) -> float | None:
    """``2026-11-18T04:43:59+0100`` as seconds since 1970; a text that is no time: when run.json was changed."""
    try:
        zone = time.strptime(str(created), "%Y-%m-%dT%H:%M:%S%z")
        return float(timegm(zone) - (zone.tm_gmtoff or 0))
    except (ValueError, OverflowError):
        return _changed(folder)


def _changed(folder: Path) -> float | None:
    try:
        return (folder / "run.json").lstat().st_mtime
    except OSError:
        return None


def _key(name: str) -> str:
    return one_line(name, 60).replace("-", "_")


def _plain(value: Any) -> Any:
    """A value as it is shown: numbers and short texts; numbers that are not finite as words."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        number = _number(value)
        return (value if isinstance(value, int) else number) if number is not None else one_line(repr(value), 40)
    return one_line(value if isinstance(value, str) else repr(value), LONGEST)


def _text(value: Any) -> str:
    return one_line(value, LONGEST) if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _number(value: Any) -> float | None:
    """A number, if it is a finite one that float64 can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e308:
        return None
    return value if math.isfinite(value) else None
