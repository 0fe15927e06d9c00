"""A sweep on the terminal: what will be done, what is being done, what came out."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from engram.cli._console import terminal
from engram.cli._duration import duration
from engram.cli._text_table import table
from engram.files import printable
from engram.sweep import MOST_TOGETHER as MOST
from engram.sweep import Estimate, Plan, Unit, columns, is_solved, outdated, over_seeds, rows_of, scores_of

REFRESH = 0.5
"""Seconds between two pictures."""


def show_plan(
    plan: Plan, out: Path, estimate: Estimate, workers: int, as_json: bool = False, every: bool = False
) -> None:
    """How many runs there are, how many are done, and how long the others will take."""
    if as_json:
        facts = {"done": estimate.done, "seconds": estimate.on(workers), "outdated": outdated(plan, out)}
        print(json.dumps({"out": str(out), "runs": rows_of(plan, {}), **facts}))
        return
    console = terminal(stderr=not every)
    counts = f"{estimate.done} of them done{_unneeded(plan, estimate)}"
    console.print(f"{plan.name}: {plan.count} runs in {printable(str(out))}, {counts}")
    if others := len(outdated(plan, out)):
        console.print(
            f"{others} runs there have settings of this sweep and other code: another version of engram, or a file"
        )
        console.print("of your own classes that was changed since. They stay as they are; such runs are trained again")
    if plan.search is not None:
        console.print(plan.search.words)
    if together := sum(bool(run.kind) for run in plan.runs):
        console.print(f"{together} of them are small and train together, up to {MOST} as one batched model")
    if estimate.left:
        most = "at most " if plan.solved is not None else ""
        what = "what is left" if plan.search is None else "what it has asked for so far"
        console.print(f"{what} takes about {most}{duration(estimate.on(workers))} with {_workers(workers)}")
    if every:
        print(_table(rows_of(plan, {}), without=("status", "solved", "parameters")))


def show_table(plan: Plan, results: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """One row per setting."""
    rows = over_seeds(plan, results)
    if as_json:
        print(json.dumps(rows))
        return
    shown = [{name: _with_range(row, name) for name in row if not name.endswith(("_min", "_max"))} for row in rows]
    print(_table(shown, without=() if any(row.get("diverged") for row in rows) else ("diverged",)))


def show_best(plan: Plan) -> None:
    """The best trial of a search, in words that can be typed."""
    best = plan.search.best()
    if best is None:
        terminal().print("no trial came to its end")
        return
    values = {name: value for name, value in best.runs[0].values.items() if name not in ("trial", "seed")}
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())
    terminal().print(f"best: trial {best.number}, {plan.search.metric} {best.values[-1]:.4g}: {flags}")


class Live:
    """Is told of all that happens in a sweep. On a terminal, a picture that is kept up to date; else a line per run."""

    def __init__(self, plan: Plan, done: int) -> None:
        self.plan, self.done, self.before, self.failed = plan, done, done, 0
        self.start = time.monotonic()
        self.running: dict[str, tuple[Unit, Mapping[str, Any]]] = {}
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
        on = sys.stderr.isatty()
        self.screen = Screen(console=self.console, auto_refresh=False, transient=True) if on else None
        self.drawn = -REFRESH

    def __enter__(self) -> Self:
        if self.screen is not None:
            self.screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.screen is not None:
            self.screen.stop()

    def __call__(self, what: str, unit: Unit, facts: Mapping[str, Any]) -> None:
        if what == "grown":
            self.plan = facts["plan"]
            return
        if what in ("started", "step"):
            self.running[unit[0].key] = (unit, facts)
        else:
            self.running.pop(unit[0].key, None)
        if what == "done":
            for run, result in zip(unit, facts["results"], strict=True):
                self.done += 1
                how = f"at step {run.until}" if result["status"] == "reached" else result["status"]
                self._say(f"{how}: {_values(run.values)}{self._scores(result)}")
        elif what in ("again", "failed"):
            self.failed += what == "failed"
            self._say(f"{'failed, started again' if what == 'again' else 'FAILED'}: {_values(unit[0].values)}: "
                      f"{printable(str(facts['reason']))[:200]}")  # fmt: skip
        elif what == "elsewhere":
            self._say(f"another process works on {_values(unit[0].values)}: waiting for it")
        self._draw()

    def _say(self, line: str) -> None:
        self.console.print(f"[{self.done}/{self.plan.count}] {line}")

    def _scores(self, result: Mapping[str, Any]) -> str:
        names = ("loss", "accuracy") if "accuracy" in scores_of(result) else tuple(scores_of(result))[:2]
        scores = "".join(f", {name} {scores_of(result)[name]:.4g}" for name in names if name in scores_of(result))
        return scores + (", solved" if is_solved(self.plan.solved, result) else "")

    def _draw(self) -> None:
        if self.screen is None or time.monotonic() - self.drawn < REFRESH:
            return
        self.drawn = time.monotonic()
        total, part = self.plan.count, self.done - self.before
        left = (self.drawn - self.start) / part * (total - self.done) if part else 0
        most = "at most " if self.plan.solved is not None else ""  # a ladder may end early
        head = f"{self.done} of {most}{total} runs" + (f", {most or 'about '}{duration(left)} left" if part else "")
        jobs = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for unit, facts in self.running.values():
            total_steps = unit[0].settings.resolved().budget.steps
            at = f"step {facts['step']} of {total_steps}" if facts else "starting"
            more = f" (and {len(unit) - 1} more, as one model)" if len(unit) > 1 else ""
            jobs.add_row(_values(unit[0].values) + more, at, f"loss {facts['loss']:.4g}" if facts else "")
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(ProgressBar(total=total, completed=self.done, width=30), Text(head))
        self.screen.update(Group(line, jobs), refresh=True)


def _unneeded(plan: Plan, estimate: Estimate) -> str:
    """Of ladders: the runs that come after one that was not solved."""
    count = plan.count - estimate.done - estimate.left
    return f", {count} not needed" if count else ""


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _values(values: Mapping[str, Any]) -> str:
    return printable(", ".join(f"{name} {value}" for name, value in values.items() if value is not None))


def _with_range(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join("none" if each is None else str(each) for each in value)
    if row.get(f"{name}_min") == row.get(f"{name}_max"):  # no score, or of one run
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{value:.4g} ({row[f'{name}_min']:.4g} to {row[f'{name}_max']:.4g})"


def _table(rows: list[dict[str, Any]], without: tuple[str, ...] = ()) -> str:
    names = [name for name in columns(rows) if name not in without]
    values = ([row.get(name) for name in names] for row in rows)
    return table(names, [["-" if value is None else printable(str(value)) for value in row] for row in values])
