"""``engram runs remove``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from engram.cli._console import terminal
from engram.cli._runs_chosen import Condition, Runs, confirm, folders_of
from engram.cli._runs_plan import show_plan
from engram.files import printable
from engram.runs import remove_run


@dataclass(frozen=True)
class RemoveRuns:
    """Delete runs: shows them, counts files that engram did not make, and asks.

    Links are never followed. A run that is in use is refused, and so is a folder that is not a run.

    Examples:
        engram runs remove runs/first runs/second
        engram runs remove --where "status=failed or status=diverged"
    """

    folders: Runs = ()
    """Run directories."""
    _: KW_ONLY
    where: Condition = ""
    """In place of RUN: all runs in --out for which this holds."""
    out: Path = Path("runs")
    """With --where: the folder of the runs."""
    yes: bool = False
    """Do not ask; files that engram did not make are deleted too."""
    json: bool = False
    """Print one JSON object: the runs that were removed."""

    def run(self) -> None:
        folders = folders_of("runs remove", self.folders, self.where, self.out)
        question = show_plan("Remove", folders)
        if not confirm("runs remove", question, self.yes):
            terminal(stderr=True).print("nothing was removed")
            return
        for folder in folders:
            remove_run(folder)
            if not self.json:
                print(f"removed {printable(str(folder))}")
        if self.json:
            print(json.dumps({"removed": [str(folder) for folder in folders]}))
