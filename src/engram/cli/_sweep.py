"""``engram sweep``: many runs from one file."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from engram.cli._command import Group
from engram.cli._run_words import Allow
from engram.cli._sweep_example import EXAMPLE
from engram.cli._sweep_export import SweepExport
from engram.cli._sweep_plan import File, plan_and_out
from engram.cli._sweep_run import engine_for, run_plan
from engram.cli._sweep_show import show_plan
from engram.cli._sweep_status import SweepStatus
from engram.cli._sweep_table import SweepTable
from engram.errors import OptionError, check_size
from engram.sweep import estimate, read_results


@dataclass(frozen=True)
class SweepRun:
    """Train all runs of a sweep file."""

    file: File = None
    """The sweep, as TOML; --example prints one."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME, where NAME is set in the file or is the file's own."""
    workers: int | None = None
    """Jobs at the same time, each in a process of its own; default: one per processor."""
    engine: Literal["local", "ray"] = "local"
    """Where the runs are trained: local, processes on this machine; ray, a Ray cluster that shares the folder."""
    address: str | None = None
    """With --engine ray: the cluster, HOST:PORT; default: auto, the one that this machine is part of."""
    allow: Allow = ()
    """A package or file whose code the sweep file may name; may be repeated."""
    dry_run: bool = False
    """Only show the runs, and how long they would take, from a few measured steps."""
    example: bool = False
    """Print a small sweep file that takes under two minutes."""
    json: bool = False
    """Print the table as JSON at the end; with --dry-run, the plan."""

    def run(self) -> None:
        if self.example:
            print(EXAMPLE, end="")
            return
        if self.workers is not None:
            check_size("workers", self.workers, most=1024)
        if self.address is not None and self.engine != "ray":
            raise OptionError(f"address is for the engine ray; the engine is {self.engine}")
        plan, out = plan_and_out(self.file, self.out, self.allow)
        engine = engine_for(plan, out, self.workers or 0, self.engine, self.address or "auto")
        if self.dry_run:
            left = estimate(plan, read_results(plan, out))
            show_plan(plan, out, left, engine.slots, self.json, every=True)
            engine.close()
        else:
            run_plan(plan, out, engine, self.allow, self.json)


SWEEP = Group(
    """Train all runs of a sweep file: grids, lists, seeds, conditions, equal parameter budgets, ladders, searches.

    It can be stopped and started again at any time: no run is trained twice.

    Examples:
        engram sweep --example > copy.toml
        engram sweep copy.toml --dry-run
        engram sweep copy.toml --out sweeps/copy
        engram sweep copy.toml --engine ray --address auto
        engram sweep table copy.toml --out sweeps/copy
        engram sweep export copy.toml --out sweeps/copy --format csv
    """,
    "command",
    {"status": SweepStatus, "table": SweepTable, "export": SweepExport},
    SweepRun,
)
