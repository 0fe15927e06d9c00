"""``engram sweep status``."""

import json
from collections import Counter
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from engram.cli._console import terminal
from engram.cli._run_words import Allow
from engram.cli._sweep_plan import File, plan_and_out
from engram.sweep import FORMATS, Plan, Watch, read_results, rows_of


@dataclass(frozen=True)
class SweepStatus:
    """Count the runs of a sweep that are done, diverged, pruned, under way, missing, or not needed.

    Example: engram sweep status copy.toml
    """

    file: File = None
    """The sweep file."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME."""
    allow: Allow = ()
    """A package or file whose code the sweep file may name; may be repeated."""
    format: Literal["text", "csv", "json", "markdown", "latex"] = "text"
    """For people (text), or a table of one row."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        plan, out = plan_and_out(self.file, self.out, self.allow)
        counts = status_of(plan, out)
        found = {"sweep": plan.name, "out": str(out), "runs": len(plan.ends), **counts}
        if self.json:
            print(json.dumps(found))
        elif self.format != "text":
            print(FORMATS[self.format]([found]), end="")
        else:
            said = ", ".join(f"{count} {name}" for name, count in counts.items())
            terminal().print(f"{plan.name}: {len(plan.ends)} runs: {said}. In {out}")


def status_of(plan: Plan, out: Path) -> dict[str, int]:
    """How many runs there are of each status."""
    results, watch = read_results(plan, out), Watch()
    counts = Counter(str(row["status"]) for row in rows_of(plan, results))
    under_way = sum(run.key not in results and watch.stale(out / run.folder) is None for run in plan.runs)
    counts["under way"], counts["missing"] = under_way, max(0, counts["missing"] - under_way)
    names = ("done", "diverged", "pruned", "under way", "missing", "not needed")
    return {name: counts[name] for name in names if counts[name]}
