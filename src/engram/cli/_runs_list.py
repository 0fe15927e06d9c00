"""``engram runs``."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._runs_chosen import chosen, names
from engram.cli._runs_table import runs_table
from engram.errors import RunError, check_size
from engram.files import printable
from engram.runs import STATUSES, Row


@dataclass(frozen=True, kw_only=True)
class ListRuns:
    """List runs; engram runs."""

    out: Path = Path("runs")
    """The folder of the runs; runs in folders below it, such as those of sweeps, are found too."""
    where: Annotated[str, Parameter(metavar="CONDITION")] = ""
    """Only the runs for which this holds: "task=copy and hidden>64"."""
    sort: Annotated[str, Parameter(metavar="NAME", allow_leading_hyphen=True)] = "-created"
    """Order by a setting or a score; -NAME: the largest first."""
    limit: Annotated[int | None, Parameter(metavar="N")] = None
    """Show at most this many; default: all."""
    json: bool = False
    """Print a JSON list with all settings and scores of each run, by the names of --where."""

    def run(self) -> None:
        limit = None if self.limit is None else check_size("--limit", self.limit)
        every = names() if self.where or self.sort else ()
        rows = chosen(self.out, self.where, self.sort, every)
        shown = rows[:limit]
        if self.json:
            # ``run`` is what other commands take; the other names are those of --where.
            print(json.dumps([{"run": str(self.out / row.name), **row.flat()} for row in shown]))
            return
        if shown:
            print(runs_table(self.out, shown))
        terminal(stderr=True).print(self._summary(rows, len(shown)))

    def _summary(self, rows: list[Row], shown: int) -> str:
        out = printable(str(self.out))
        if not rows and (self.out / "run.json").exists():
            raise RunError(f"{out} is a run itself: --out is the folder that has the runs in it")
        if not rows and not self.where:
            there = self.out.is_dir()
            if not there and self.out.exists():
                raise RunError(f"{out} is not a folder: --out is the folder that has the runs in it")
            what = "no runs in" if there else "no folder"
            return f"{what} {out}. To make a run: engram train copy --model exprnn; elsewhere: engram runs --out DIR"
        count = Counter(row.status for row in rows)
        words = ", ".join(f"{count[status]:,} {status}" for status in STATUSES if count[status])
        which = " for which that holds" if self.where else ""
        more = f"; shown: {shown:,}" if shown < len(rows) else ""
        return f"{len(rows):,} run{'s' * (len(rows) != 1)} in {out}{which}{': ' if words else ''}{words}{more}"
