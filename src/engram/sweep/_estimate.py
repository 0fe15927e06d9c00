"""How long the runs of a sweep will take, from a few measured steps."""

import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any

from engram.sweep._plan import Plan, Planned
from engram.train import Settings, plan

MEASURE = 15.0
"""Seconds that measuring may take; what is not measured by then is scaled from what is."""


@dataclass(frozen=True)
class Estimate:
    """What is left of a sweep.

    done: runs that have a result. left: runs that are still to be trained; a ladder that has ended needs no more.
    longest: seconds of the longest run that is left. total: seconds of all of them, one after another; for ladders, as
    if every value were solved.
    """

    done: int
    left: int
    longest: float
    total: float

    def on(self, workers: int) -> float:
        """Seconds with this many workers."""
        return max(self.longest, self.total / workers)


def estimate(sweep: Plan, results: Mapping[str, Mapping[str, Any]], seconds: float = MEASURE) -> Estimate:
    """Train a few steps of as many different runs as ``seconds`` allow, and throw them away."""
    left = sweep.left(results)
    rates: dict[str, float] = {}  # seconds per unit of work, by shape
    until = time.monotonic() + seconds
    for run in _spread(left):
        if rates and time.monotonic() > until:
            break
        with suppress(Exception, SystemExit), redirect_stdout(sys.stderr):  # a model of somebody may do anything
            facts = plan(run.settings, measured=3)
            rates[_shape(run)] = facts["seconds_a_step"] / _work(run.settings)
    mean = sum(rates.values()) / len(rates) if rates else 0.0
    times = [_steps(run.settings) * _work(run.settings) * rates.get(_shape(run), mean) for run in left]
    done = sum(run.key in results for run in sweep.runs)
    return Estimate(done, len(left), max(times, default=0.0), sum(times))


def _spread(runs: list[Planned]) -> list[Planned]:
    """One run of each shape, sorted by work and then taken by halving (0, 1/2, 1/4, 3/4, ...): few stand for all."""
    shapes = list({_shape(run): run for run in runs}.values())
    shapes.sort(key=lambda run: _work(run.settings))
    order = sorted(range(len(shapes)), key=lambda k: bin(k)[:1:-1])
    return [shapes[k] for k in order]


def _shape(run: Planned) -> str:
    """Equal for runs that differ in seed and rates only."""
    settings = run.settings
    return repr((settings.task, settings.model, settings.budget.batch, settings.machine))


def _work(settings: Settings) -> float:
    """About as many multiplications as a step takes: rows times parameters; and a fixed cost for every time step."""
    hidden, layers = settings.model.hidden, settings.model.layers
    return settings.task.steps * layers * (settings.budget.batch * hidden * (hidden + 50) + 1e5)


def _steps(settings: Settings) -> float:
    """Optimiser steps, and what validation costs: a forward pass is a third of a step."""
    budget = settings.resolved().budget
    steps = budget.steps or 0
    validations = steps // budget.validate_every if budget.validate_every else 0
    sequences = validations * (budget.valid_samples or 0) + (budget.test_samples or 0)
    return steps + sequences / budget.batch / 3
