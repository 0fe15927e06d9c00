"""The runs that a command is to work on: named, or chosen by a condition."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from engram.cli._catalogue import catalogue
from engram.cli._run_words import Run, check_run, without_files
from engram.errors import OptionError
from engram.runs import Row, list_runs, read_row, select

Runs = Annotated[tuple[Path, ...], *Run.__metadata__]
Condition = Annotated[str, Parameter(metavar="CONDITION")]


def chosen(out: Path, where: str, sort: str = "", also: Iterable[str] = ()) -> list[Row]:
    """The rows of a folder for which a condition holds."""
    return select(list_runs(out), where, sort, also)


def folders_of(command: str, words: Sequence[Path], where: str, out: Path) -> list[Path]:
    """Named runs, or those of ``out`` for which the condition holds; never none, and never both."""
    if words and where:
        raise OptionError(f"engram {command} takes runs or --where, not both")
    if not words and not where:
        raise OptionError(f"engram {command} needs RUN, a run directory, or --where. engram runs lists them")
    if words:
        folders = without_files(words)
        for folder in folders:
            check_run(folder)
        return list(dict.fromkeys(Path(folder) for folder in folders))
    found = [out / row.name for row in chosen(out, where, also=names())]
    if not found:
        raise OptionError(f"there is no run in {out} for which {where!r} holds. engram runs --out {out} lists them")
    return found


def rows_of(folders: Sequence[Path]) -> list[Row]:
    """The rows of single folders, by the paths that were typed."""
    return [read_row(folder, str(folder)) for folder in folders]


def names() -> set[str]:
    """Names that a condition may use though no run has them yet: options of all tasks and models, their scores."""
    found = {
        name.replace("-", "_") for what in ("tasks", "models") for row in catalogue()[what] for name in row["options"]
    }
    scores = {"loss", *(row["metric"] for row in catalogue()["tasks"])}
    return found | {f"{split}_{score}" for split in ("test", "valid") for score in scores}


def confirm(command: str, question: str, yes: bool) -> bool:
    """Ask on the terminal; where there is none, ``--yes`` must say it."""
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise OptionError(f"engram {command} asks before it deletes, and there is no terminal to answer: add --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
