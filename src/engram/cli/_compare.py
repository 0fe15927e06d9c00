"""``engram compare``."""

import json
import os
import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._runs_chosen import Condition, Runs, folders_of
from engram.cli._text_table import table
from engram.errors import OptionError
from engram.files import printable
from engram.runs import Comparison, compare_csv, compare_json, compare_runs, compare_table

ENDINGS = (".svg", ".png", ".html", ".csv", ".json")


@dataclass(frozen=True)
class Compare:
    """Compare runs: which settings differ, scores with their spread over seeds, cost; plot their curves together.

    Runs that differ only in the seed are one row, and in the figure one colour. The best comes first.

    Examples:
        engram compare runs/first runs/second
        engram compare --where "task=copy" -o copy.html
        engram compare runs/* -o curves.svg
    """

    folders: Runs = ()
    """Run directories."""
    _: KW_ONLY
    where: Condition = ""
    """In place of RUN: all runs in --out for which this holds."""
    out: Path = Path("runs")
    """With --where: the folder of the runs."""
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """Write the curves (.svg, .png), a page with curves and tables (.html), or one row per run (.csv, .json)."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        if self.output is not None and self.output.suffix not in ENDINGS:
            raise OptionError(f"--output must end in one of {', '.join(ENDINGS)}, got {self.output}")
        found = compare_runs(folders_of("compare", self.folders, self.where, self.out))
        if self.json:
            print(json.dumps(compare_json(found)))
        else:
            _show(found)
        if self.output is not None:
            self._write(found, self.output)
            what = "figure" if self.output.suffix in (".svg", ".png") else "written"
            terminal(stderr=True).print(f"{what}: {printable(str(self.output))}")

    def _write(self, found: Comparison, path: Path) -> None:
        from engram.report import compare_page, plot_compare, write_text

        if path.suffix in (".svg", ".png"):
            plot_compare(found, path)
        elif path.suffix == ".html":
            write_text(path, compare_page(found))
        elif path.suffix == ".csv":
            write_text(path, compare_csv(found))
        else:
            write_text(path, json.dumps(compare_json(found), indent=1) + "\n")


def _show(found: Comparison) -> None:
    head, rows = compare_table(found)
    right = [name for name in head if name not in ("run", "status", "task", "model")]
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    print(table(head, rows, right, width))
    console = terminal(stderr=True)
    if len(found.groups) == 1 and len(found.runs) > 1:
        console.print("These runs differ in the seed only.")
    if len(found.tasks) > 1:
        console.print(f"Runs of {len(found.tasks)} tasks: their losses and scores measure different things.")
