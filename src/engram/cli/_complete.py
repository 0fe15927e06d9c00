"""What may come next on the command line, for the scripts of ``engram completion``: from the catalogue, in no time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engram.cli._catalogue import catalogue, names, options_after


def complete(words: list[str]) -> list[str]:
    """The candidates for the last of the words after ``engram``, those that begin like it.

    Where there are none, the shell offers files.

    >>> complete(["tra"])
    ['train']
    >>> complete(["train", "copy", "--model", "nnr"])
    ['nnrnn']
    """
    *before, begun = words or [""]
    before, begun = [word for word in before if word != "="], "" if begun == "=" else begun  # bash cuts --model=nn
    return sorted({word for word in _candidates(before, begun) if word.startswith(begun)})


def _candidates(before: list[str], begun: str) -> Iterable[str]:
    commands = catalogue()["commands"]
    if not before:
        return ["--help", "--version", *commands] if begun.startswith("-") else commands
    if before[0] not in commands:
        return ()
    command = commands[before[0]]
    if "below" in command:
        if len(before) == 1 and not begun.startswith("-"):
            return [*command["below"], *(_words(before, begun, command["words"]) if command["alone"] else ())]
        command = command["below"].get("".join(before[1:2]), command)
    options = options_after(before)
    if begun.startswith("-"):
        return [*options, "--help"]
    takes = options.get(before[-1])
    if takes is not None and before[-1].startswith("-"):
        return _values(before[-1], takes)
    return _words(before, begun, command["words"])


def _values(flag: str, takes: Any) -> Iterable[str]:
    """What an option takes: one of its choices, a model, a task; anything else is the shell's to complete."""
    if isinstance(takes, list):
        return takes
    return names({"--model": "models", "--task": "tasks"}.get(flag, ""))


def _words(before: list[str], begun: str, takes: list[Any]) -> Iterable[str]:
    """A word that stands alone: one of a list, a task, a run, or a name of what is listed."""
    if before[0] == "train" or before[:2] == ["plot", "task"]:
        return () if {*before} & {*names("tasks")} else names("tasks")
    if before[0] == "list" and len(before) == 2:
        return names(before[1])
    if "RUN" in takes:
        return _runs(begun)
    return takes[0] if takes and isinstance(takes[0], list) and len(before) == 1 else ()


def _runs(begun: str) -> list[str]:
    """Runs below here, and below the folder that the word names so far: ``sweeps/delay/co``."""
    from engram.cli._run_words import runs_below

    folder = begun.rpartition("/")[0]
    return [str(run) for run in [*runs_below(), *(runs_below(Path(folder)) if folder else ())]]
