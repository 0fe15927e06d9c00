"""The TOML file after ``--config``, and how the words of the command line override it."""

import tomllib
from pathlib import Path
from typing import Any

from engram.errors import EngramError, FileError, OptionError
from engram.files import read_bounded
from engram.train import groups_of

FOLLOWING = {
    "optimizer": ("optimiser", ("alpha", "betas", "momentum", "eps")),
    "lr": ("optimiser", ("lr_orthogonal",)),
    "steps": ("optimiser", ("cosine_steps",)),
    "plateau": ("optimiser", ("schedule",)),
    "step_size": ("optimiser", ("schedule",)),
}
"""Settings whose default follows from another: given that one, those of a file do not count."""


def read_settings(path: Path, allow: list[str]) -> dict[str, Any]:
    """The groups of a TOML file, and the task as a table with a name. Hyphens and underscores are alike; of lists and
    options the text None is None."""
    try:
        values = tomllib.loads(read_bounded(path, 2**20).decode("utf-8-sig"))  # editors of Windows begin with a mark
    except OSError as error:
        raise OptionError(f"--config {path}: {error.strerror}") from None
    except FileError as error:
        raise OptionError(f"--config {path}: {error}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, endless digits or nesting
        raise OptionError(f"--config {path} is not TOML: {error}") from None
    values = _plain(values)
    if isinstance(model := values.get("model"), dict) and isinstance(options := model.get("options"), dict):
        model["options"] = {name: None if value == "None" else value for name, value in options.items()}
    try:
        groups_of(values, allow)
    except EngramError as error:
        raise type(error)(f"--config {path}: {error}") from None
    task = values.get("task", {})
    values["task"] = {"name": task} if isinstance(task, str) else task
    if not isinstance(values["task"], dict):
        raise OptionError(f"task in {path} must be a name or a table with a name, got {task!r}")
    return values


def overridden(values: dict[str, Any], given: set[str]) -> dict[str, Any]:
    """The groups of a file without what the given flags decide anew."""
    dropped = {place for flag, place in FOLLOWING.items() if flag in given}
    if {"steps", "epochs"} & given:  # one or the other
        dropped.add(("budget", ("steps", "epochs")))
    left = {name: dict(group) if isinstance(group, dict) else group for name, group in values.items()}
    for group, names in dropped:
        for name in names:
            left.get(group, {}).pop(name, None)
    return left


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [None if each == "None" else _plain(each) for each in values]
    return {k.replace("-", "_"): _plain(v) for k, v in values.items()} if isinstance(values, dict) else values
