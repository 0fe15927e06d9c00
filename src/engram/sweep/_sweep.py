"""A sweep under way: runs that can start go to an engine, results come back, until nothing is left to do."""

import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engram.imports import absolute_names
from engram.sweep._job import Result, job_of, result_of
from engram.sweep._lease import Watch
from engram.sweep._local import Engine, Event
from engram.sweep._plan import Plan, Planned
from engram.sweep._together import in_parts

WAIT = 0.2
"""Seconds between two looks at what has changed."""
AGAIN = 1.0
"""Seconds between two looks at runs that another process works on."""
SAVING = 60.0
"""Seconds that jobs have to save when the sweep is stopped."""

Unit = tuple[Planned, ...]
"""What trains as one: a run, or several."""
Observe = Callable[[str, Unit, Mapping[str, Any]], None]
"""Is told ``started``, ``step``, ``done``, ``again``, ``failed`` and ``elsewhere``, of which runs, with details; and
``grown``, of no run, with the plan of a search that has grown."""


@dataclass
class Sweep:
    """A plan, a folder and an engine. :meth:`run` goes on from whatever is there, to the end.

    Runs by other processes on the same folder are left to them; if they die, their runs are taken over.
    """

    plan: Plan
    out: Path
    """The folder of the sweep; each run has a folder below it."""
    engine: Engine
    """Where jobs are done: :class:`Local`, or one of a cluster."""
    allow: Sequence[str] = ()
    """Packages and files outside engram whose code the runs may use."""
    observe: Observe = lambda *_: None
    """Is told each thing that happens: see :data:`Observe`."""
    watch: Watch = field(default_factory=Watch)
    """Tells which runs of other processes are dead."""
    results: dict[str, Result] = field(default_factory=dict)
    """By key: what is done."""
    failed: dict[str, str] = field(default_factory=dict)
    """By key: why a run could not be finished."""

    def __post_init__(self) -> None:
        self.out, self.allow = self.out.absolute(), absolute_names(self.allow)
        self.running: dict[int, Unit] = {}
        self.waiting: deque[Unit] = deque()
        self.elsewhere: deque[Unit] = deque()
        self.attempts: dict[str, int] = {}
        self.submitted = 0
        self.looked = -AGAIN

    def run(self) -> dict[str, Result]:
        """All results by key. Ctrl-C lets the jobs under way save, and raises KeyboardInterrupt."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.plan = grown(self.plan, self.out)
        self.results = read_results(self.plan, self.out)
        self.waiting.extend(units(self.plan, self.results, self.engine.slots))
        try:
            self._start()
            while self.running or self.waiting or self.elsewhere or self._grow():
                for event in self.engine.events(WAIT):
                    self._hear(event)
                self._start()
        except KeyboardInterrupt:
            self._stop()
            raise
        finally:
            self.engine.close()
        return self.results

    def _start(self) -> None:
        """Give the engine what can start."""
        self._look_elsewhere()
        for _ in range(len(self.waiting)):
            if len(self.running) >= self.engine.slots:
                return
            unit = self.waiting.popleft()
            may_start = self._may_start(unit)
            if may_start is None:
                self.waiting.append(unit)
            if not may_start:
                continue
            stale = self._stale(unit)
            if stale is None:
                self.elsewhere.append(unit)
                self.observe("elsewhere", unit, {})
                continue
            self.submitted += 1
            self.running[self.submitted] = unit
            self.engine.submit(self.submitted, job_of(unit, self.out, self.allow), stale)
            self.observe("started", unit, {})

    def _grow(self) -> bool:
        """When all is done: whether a search asks for more."""
        if self.plan.search is None:
            return False
        before = {run.key for run in self.plan.runs}
        self.plan = self.plan.grown(self.results)
        self.plan.search.save(self.out)
        self.results |= read_results(self.plan, self.out)
        self.waiting.extend(units(self.plan, {*before, *self.results}, self.engine.slots))
        self.observe("grown", (), {"plan": self.plan})
        return len(self.plan.runs) > len(before)

    def _may_start(self, unit: Unit) -> bool | None:
        """Whether a unit may start: None if that is not known yet. A ladder also ends where a run failed."""
        found = self.plan.is_open(unit[0], self.results)
        if found is None and self.plan.comes_after(unit[0], self.failed):
            return False
        return found

    def _stale(self, unit: Unit) -> list[int] | None:
        """For each run, the number of a dead process's lease or 0; None if a living one has one of them."""
        found = [self.watch.stale(self.out / run.folder) for run in unit]
        return None if None in found else [number for number in found if number is not None]

    def _look_elsewhere(self) -> None:
        """Runs of other processes: done, or left behind by a dead one, or still theirs."""
        if time.monotonic() - self.looked < AGAIN:
            return
        self.looked = time.monotonic()
        for _ in range(len(self.elsewhere)):
            unit = self.elsewhere.popleft()
            found = [result_of(self.out / run.folder, run.identity, run.until) for run in unit]
            if all(found):
                self._done(unit, found)
            elif self._stale(unit) is None:
                self.elsewhere.append(unit)
            else:
                self.waiting.appendleft(unit)

    def _hear(self, event: Event) -> None:
        unit = self.running.get(event["number"])
        if unit is None:
            return
        if "step" in event:
            self.observe("step", unit, event)
            return
        del self.running[event["number"]]
        if event.get("results") and len(event["results"]) == len(unit):
            self._done(unit, event["results"])
        elif "held" in event:
            self.elsewhere.append(unit)
            self.observe("elsewhere", unit, {})
        elif "stopped" not in event:
            lost = f"its process ended with code {event.get('lost')}"
            self._failed(unit, str(event.get("failed") or lost), final=bool(event.get("final")))

    def _done(self, unit: Unit, results: Sequence[Result | None]) -> None:
        found = {run.key: result for run, result in zip(unit, results, strict=True) if result is not None}
        self.results |= found
        self.observe("done", unit, {"results": results})

    def _failed(self, unit: Unit, reason: str, final: bool) -> None:
        """Once more, and alone: one of several that train together may have brought the others down."""
        for run in unit:
            attempts = self.attempts[run.key] = self.attempts.get(run.key, 0) + 1
            if attempts > self.plan.retries or (final and len(unit) == 1):
                self.failed[run.key] = reason
                self.observe("failed", (run,), {"reason": reason})
            else:
                self.waiting.append((run,))
                self.observe("again", (run,), {"reason": reason})

    def _stop(self) -> None:
        """Jobs save; a second Ctrl-C does not wait for them."""
        self.engine.stop()
        until = time.monotonic() + SAVING
        while self.running and time.monotonic() < until:
            for event in self.engine.events(WAIT):
                unit = None if "step" in event else self.running.pop(event["number"], None)
                if unit is not None and len(event.get("results", ())) == len(unit):
                    self._done(unit, event["results"])  # it has just ended


def units(plan: Plan, results: Container[str], workers: int) -> list[Unit]:
    """What is left to train, in the order of the plan: runs of one kind in parts, the others one by one.

    Where there are fewer kinds than workers, each kind is cut into so many parts that no worker has to wait.
    """
    kinds: dict[str, list[Planned]] = {}
    for run in plan.runs:
        if run.key not in results:
            kinds.setdefault(run.kind or run.key, []).append(run)
    share = -(-workers // max(1, len(kinds)))
    return [tuple(runs[part]) for runs in kinds.values() for part in in_parts(len(runs), share)]


def read_results(plan: Plan, out: Path) -> dict[str, Result]:
    """The results in a folder by key, which is the identity of a run that is trained to its end."""
    found = ((run.key, result_of(out / run.folder, run.identity, run.until)) for run in plan.runs)
    return {key: result for key, result in found if result is not None}


def grown(plan: Plan, out: Path) -> Plan:
    """The plan of a search with all that it has asked for so far; any other plan as it is."""
    while len((more := plan.grown(read_results(plan, out))).runs) > len(plan.runs):
        plan = more
    return more
