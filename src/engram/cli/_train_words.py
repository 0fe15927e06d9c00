"""What decides the options of ``engram train`` before they are known: task, model, settings file, and whose code."""

import re
from dataclasses import dataclass
from pathlib import Path

from engram.imports import full_name, is_outside
from engram.models import MODELS
from engram.tasks import TASKS

TEXTS = (
    "--model", "--encoder", "--context", "--l1-on", "--allow", "--out", "--config", "--name", "--stop-by", "--group",
    "--device", "--lr-figure",
)  # fmt: skip
"""Options whose value may look like the name of a task."""
ALONE = (
    "--dry-run", "--find-lr", "--json", "--tensorboard", "--no-tensorboard", "--no-readout-bias", "--readout-bias",
    "-h",
)  # fmt: skip
"""Flags, after which a word is not a value."""


@dataclass(frozen=True)
class Named:
    """What the words name."""

    task: str | None
    model: str | None
    config: Path | None
    allow: list[str]
    """What was typed needs no leave: names of the words themselves are allowed."""
    second: str | None = None
    """The model, where it is the second word that no option takes."""


def names_in(words: list[str]) -> Named:
    """One look at the words, left to right. The task may stand anywhere: it is the word that no option takes. A second
    such word is the model."""
    said: dict[str, list[str]] = {}
    task = guess = None
    before = ""
    for word in words:
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and equals:
            said.setdefault(flag, []).append(value)
            before = ""
            continue
        if before in TEXTS and not word.startswith("--"):
            said.setdefault(before, []).append(word)
        elif task is None and (word in TASKS or re.search(r"\.py:[\w.]+$", word)):
            task = word
        elif guess is None and not word.startswith("-") and (before in ("", *ALONE) or not before.startswith("--")):
            guess = word  # misspelt, or package.module:Class
        before = word
    named = guess if task is not None and guess is not None and (guess in MODELS or is_outside(guess)) else None
    task, model, config = task or guess, _last(said, "--model") or named, _last(said, "--config")
    typed = (task, model, _last(said, "--encoder"))
    allow = [*(name for name in typed if name and is_outside(name)), *said.get("--allow", [])]
    return Named(task, model, Path(config) if config is not None else None, allow, named)


def _last(said: dict[str, list[str]], flag: str) -> str | None:
    """The last value of a flag counts."""
    return said[flag][-1] if flag in said else None


def same(name: object, other: object) -> bool:
    """Whether two names mean one thing: a file may be named by a path from here or from the root."""
    return name == other or (
        isinstance(name, str)
        and isinstance(other, str)
        and is_outside(name)
        and is_outside(other)
        and full_name(name) == full_name(other)
    )
