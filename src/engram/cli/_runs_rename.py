"""``engram runs rename``."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from engram.cli._run_words import Run, check_run
from engram.files import printable
from engram.runs import rename_run


@dataclass(frozen=True)
class RenameRun:
    """Give a run another name, in the same folder.

    A run of a sweep keeps its name, by which the sweep finds it; a run in use is refused.

    Example: engram runs rename runs/copy-nnrnn-20261115-120000 first
    """

    folder: Run
    """The run directory."""
    name: Annotated[str, Parameter(name="NAME", metavar="NAME")]
    """Its new name, without a path."""

    def run(self) -> None:
        check_run(self.folder)
        print(f"run: {printable(str(rename_run(self.folder, self.name)))}")
