"""``engram sweep``: many runs from one file."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from engram.cli._command import Group
from engram.cli._console import terminal
from engram.cli._runs import Allow
from engram.cli._sweep_example import EXAMPLE
from engram.cli._sweep_show import Live, show_plan, show_table
from engram.cli._sweep_tables import SweepExport, SweepStatus, SweepTable, plan_and_out
from engram.errors import StoppedError, check_size
from engram.sweep import Local, Plan, Sweep, estimate, read_results


@dataclass(frozen=True)
class SweepRun:
    """Train all runs of a sweep file."""

    file: Annotated[Path | None, Parameter(name="FILE", metavar="FILE")] = None
    """The sweep, as TOML; --example prints one."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME, with the name of the sweep."""
    workers: int | None = None
    """Runs at once, each in a process of its own; default: as many as there are processors."""
    engine: Literal["local"] = "local"
    """Where the runs are trained: local, worker processes on this machine."""
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
        plan, out = plan_and_out(self.file, self.out, self.allow)
        if self.dry_run:
            show_plan(plan, out, estimate(plan, read_results(plan, out)), self._workers(plan), self.json, every=True)
        else:
            run_plan(plan, out, self._workers(plan), self.allow, self.json)

    def _workers(self, plan: Plan) -> int:
        return self.workers or Local(threads=_threads(plan)).slots


def run_plan(plan: Plan, out: Path, workers: int, allow: tuple[str, ...], as_json: bool) -> None:
    """Train what is not done, with a table that is kept up to date, and print what came out."""
    done = read_results(plan, out)
    if len(done) < len(plan.runs):
        show_plan(plan, out, estimate(plan, done), workers)
    out.mkdir(parents=True, exist_ok=True)
    live = Live(plan, len(done))
    sweep = Sweep(plan, out, Local(workers, _threads(plan), out / "workers.log"), allow, live)
    try:
        with live:
            sweep.run()
    except KeyboardInterrupt:
        terminal(stderr=True).print(f"stopped: {len(sweep.results)} of {len(plan.runs)} runs are done, in {out}. ")
        terminal(stderr=True).print("The same command goes on from here.")
        raise
    show_table(plan, sweep.results, as_json)
    if not as_json:
        terminal().print(f"runs: {out}")
    if sweep.failed:
        reason = next(iter(sweep.failed.values()))
        raise StoppedError(
            f"{len(sweep.failed)} of {len(plan.runs)} runs failed: {reason}. The same command tries them again; "
            f"{out / 'workers.log'} has what they said"
        )


def _threads(plan: Plan) -> int:
    return max((run.settings.machine.threads for run in plan.runs), default=1)


SWEEP = Group(
    """Train all runs of a sweep file: grids, lists, seeds, conditions, equal parameter budgets, ladders.

    It can be stopped and started again at any time: what is done is not done again.

    Examples:
        engram sweep --example > copy.toml
        engram sweep copy.toml --dry-run
        engram sweep copy.toml --out sweeps/copy
        engram sweep table copy.toml --out sweeps/copy
        engram sweep export copy.toml --out sweeps/copy --format csv
    """,
    "command",
    {"status": SweepStatus, "table": SweepTable, "export": SweepExport},
    SweepRun,
)
