"""``engram runs archive``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from engram.cli._console import terminal
from engram.cli._runs_chosen import Condition, Runs, confirm, folders_of
from engram.cli._runs_plan import show_plan
from engram.files import printable
from engram.runs import archive_run


@dataclass(frozen=True)
class ArchiveRuns:
    """Pack each run into NAME.tar.gz beside it; its folder is deleted once the archive was read back and compared.

    tar xf NAME.tar.gz in the same folder brings a run back.

    Examples:
        engram runs archive runs/first
        engram runs archive --where "status=done and age>2592000" --yes
    """

    folders: Runs = ()
    """Run directories."""
    _: KW_ONLY
    where: Condition = ""
    """In place of RUN: all runs in --out for which this holds."""
    out: Path = Path("runs")
    """With --where: the folder of the runs."""
    yes: bool = False
    """Do not ask."""
    json: bool = False
    """Print one JSON object: the archive of each run."""

    def run(self) -> None:
        folders = folders_of("runs archive", self.folders, self.where, self.out)
        question = show_plan("Archive", folders)
        if not confirm("runs archive", question, self.yes):
            terminal(stderr=True).print("nothing was archived")
            return
        made = {}
        for folder in folders:
            made[str(folder)] = str(archive_run(folder))
            if not self.json:
                print(f"archive: {printable(made[str(folder)])}")
        if self.json:
            print(json.dumps({"archives": made}))
