"""A sweep from the command line: what it will take, how it goes on, what came out."""

import signal
from pathlib import Path

from engram.cli._console import terminal
from engram.cli._sweep_plan import check_out
from engram.cli._sweep_show import Live, show_best, show_plan, show_table
from engram.errors import StoppedError
from engram.imports import absolute_names
from engram.sweep import Engine, Local, Plan, Ray, Sweep, estimate, read_results


def run_plan(plan: Plan, out: Path, engine: Engine, allow: tuple[str, ...], as_json: bool) -> None:
    """Train what is not done, with a table that is kept up to date, and print what came out."""
    check_out(out)
    where, allow = out.absolute(), absolute_names(allow)  # before a model of somebody changes the folder
    done = read_results(plan, where)
    if plan.left(done):
        show_plan(plan, out, estimate(plan, done), engine.slots)
    where.mkdir(parents=True, exist_ok=True)
    live = Live(plan, len(done))
    sweep = Sweep(plan, where, engine, allow, live)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # what batch systems send: as Ctrl-C
    try:
        with live:
            sweep.run()
    except KeyboardInterrupt:
        terminal(stderr=True).print(f"stopped: {len(sweep.results)} of {sweep.plan.count} runs are done, in {out}.")
        terminal(stderr=True).print("The same command goes on from here.")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    show_table(sweep.plan, sweep.results, as_json)
    if not as_json and sweep.plan.search is not None:
        show_best(sweep.plan)
    if not as_json:
        terminal().print(f"runs: {out}")
    if sweep.failed:
        reason = next(iter(sweep.failed.values()))
        raise StoppedError(
            f"{len(sweep.failed)} of {sweep.plan.count} runs failed: {reason}. The same command tries them again; "
            f"{out / '.workers.log'} has what they said"
        )


def engine_for(plan: Plan, out: Path, workers: int = 0, name: str = "local", address: str = "auto") -> Engine:
    """Where the runs are trained; 0 workers: as many as there are processors for them."""
    threads = max((run.settings.machine.threads for run in plan.runs), default=1)
    log = out.absolute() / ".workers.log"
    if name == "local":
        return Local(workers, threads, log)
    out.mkdir(parents=True, exist_ok=True)
    return Ray(address, workers, threads, log)
