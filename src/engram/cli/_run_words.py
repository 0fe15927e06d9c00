"""Run directories by what people type."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from engram.errors import RunError
from engram.files import printable
from engram.runs import find_runs

T = TypeVar("T")
Run = Annotated[Path, Parameter(name="RUN", metavar="RUN")]
"""A word that stands alone: a run directory."""
Allow = Annotated[tuple[str, ...], Parameter(metavar="NAME", consume_multiple=False)]
"""Packages and files whose code a run may import; the flag may be given several times."""


def runs_below(folder: Path = Path()) -> list[Path]:
    """The runs in a folder and in the folders within it, newest first."""
    found = sorted(find_runs(folder), key=lambda place: place.changed, reverse=True)
    return [place.folder for place in found]


def newest_run() -> Path | None:
    """The newest run below the current folder."""
    return next(iter(runs_below()), None)


def without_files(words: Sequence[T]) -> list[T]:
    """What may be a run: ``runs/*`` also names archives and the log of a search. A file alone is left for the error."""
    return [word for word in words if not Path(str(word)).is_file()] or list(words)


def check_run(folder: Path) -> None:
    """Refuse what is not a run, with the name of the run that was probably meant."""
    path = folder / "run.json"
    if path.exists() or path.is_symlink():  # a link is for the library to refuse
        return
    fault = (
        "there is no such folder"
        if not folder.exists()
        else "it has no run.json"
        if folder.is_dir()
        else "it is a file"
    )
    runs = {str(run): run.name for run in runs_below()}
    near = [name for name, last in runs.items() if last == folder.name] or get_close_matches(str(folder), runs, n=1)
    if near and not folder.exists():
        cure = f"Did you mean {near[0]}?"
    elif runs:
        cure = f"The newest run here is {next(iter(runs))}"
    else:
        cure = "Runs are made by: engram train TASK"
    raise RunError(f"{printable(str(folder))} is not a run: {fault}. {cure}")
