"""Which learning rate: a short training at growing rates, thrown away."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from statistics import fmean, stdev
from typing import Any

import torch

from engram.errors import DivergedError, OptionError, StoppedError, check_number, check_size
from engram.train._denormals import without_denormals
from engram.train._fabric import make_fabric
from engram.train._loop import Loop
from engram.train._settings import Settings
from engram.train._settings_optimiser import Group, Optimiser

SMOOTHING = 0.9
"""Share of the mean so far in the next smoothed loss."""
EXPLODED = 4.0
"""A smoothed loss above the first one and of more than this many times the lowest one has exploded."""
FEWEST, START = 20, 10
"""Steps of a test that tells anything; those at its start, whose mean loss is where the loss falls from."""
FALL = 0.95
"""Share of the fall of the smoothed loss: the rate of the lowest loss itself may lie anywhere on a flat stretch."""
RULE = "a tenth of the smallest rate at which the smoothed loss had made 95 % of its fall"


@dataclass(frozen=True)
class RateTest:
    """What a range test measured, one entry per step, and the rate that follows from it."""

    rates: tuple[float, ...]
    """The learning rate of each step."""
    losses: tuple[float, ...]
    """Of each step, before its update: the loss at ``rates[k]`` is what the rates before it led to."""
    smoothed: tuple[float, ...]
    """Exponential mean of the losses, without the bias towards its start."""
    fallen: float
    """The smallest rate at which the smoothed loss had made 95 % of its fall."""
    exploded: float | None
    """The rate at which the loss exploded or was not finite; None: it did not up to the largest rate."""
    lr: float
    """The suggested rate: a tenth of ``fallen``, to two digits."""
    lr_orthogonal: float
    """The rate of orthogonal parameters beside it, in the ratio of the settings."""
    groups: tuple[Group, ...] = ()
    """The groups of the settings, their rates in the same ratio."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rule": RULE}


def find_lr(settings: Settings, lr_from: float = 1e-6, lr_to: float = 10.0, lr_steps: int = 200) -> RateTest:
    """The learning-rate range test (Smith 2017, "Cyclical learning rates", section 3.3), with rates that grow
    geometrically and a smoothed loss.

    Trains a network of these settings, which is thrown away. The test stops when the loss explodes. The rates of
    orthogonal parameters and of groups by pattern grow in the ratio that they have to ``lr`` in the settings; warm-up
    and schedule are left out. The same settings give the same numbers, bit for bit.

    Args:
        settings: ``lr`` matters only for the ratios.
        lr_from: the rate of the first step.
        lr_to: the rate of the last one.
        lr_steps: how many steps, at least 20.

    Raises:
        DivergedError: the loss is not finite, or explodes, before the test could tell anything.
        StoppedError: no rate lowered the loss.
    """
    for name, value in (("lr_from", lr_from), ("lr_to", lr_to)):
        if not 0 < check_number(name, value) < inf:
            raise OptionError(f"{name} must be positive, got {value}")
    if lr_from >= lr_to:
        raise OptionError(f"lr_from must be below lr_to, got {lr_from:g} and {lr_to:g}")
    check_size("lr_steps", lr_steps, least=FEWEST)
    settings = _without_schedule(settings)
    rates = [lr_from * (lr_to / lr_from) ** (k / (lr_steps - 1)) for k in range(lr_steps)]
    losses, fault = _losses(settings, rates)
    smoothed = smooth(losses)
    if len(losses) <= START:
        what = fault or "the loss explodes"
        raise DivergedError(
            f"{what}, at a rate of {rates[len(losses)]:.3g} already: too early to suggest one. Try a smaller lr_from; "
            "if that changes nothing, look at the data and the initial weights"
        )
    start, noise = fmean(losses[:START]), stdev(losses[:START])
    fall = start - min(smoothed[START:])
    if fall <= max(noise, 1e-6 * abs(start)):
        raise StoppedError(
            f"no rate from {lr_from:g} to {rates[len(losses) - 1]:.3g} lowered the loss, {start:.3g} at the start, "
            f"by more than its noise, {noise:.2g}: try more lr_steps, or another range"
        )
    fallen = next(rates[k] for k in range(START, len(losses)) if start - smoothed[k] >= FALL * fall)
    exploded = rates[len(losses)] if len(losses) < lr_steps else None
    best = _at(settings.optimiser, _short(fallen / 10, digits=2))  # more digits would mean nothing
    groups = tuple(replace(each, lr=each.lr and _short(each.lr)) for each in best.groups)
    tested = tuple(rates[: len(losses)])
    other = _short(best.lr_orthogonal or 0.0)
    return RateTest(tested, tuple(losses), smoothed, fallen, exploded, best.lr, other, groups)


def smooth(losses: Sequence[float]) -> tuple[float, ...]:
    """The exponential mean of each loss and those before it, without bias towards the start (as in Adam)."""
    mean, found = 0.0, []
    for k, loss in enumerate(losses, start=1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        found.append(mean / (1 - SMOOTHING**k))
    return tuple(found)


def _losses(settings: Settings, rates: list[float]) -> tuple[list[float], str]:
    """The losses at these rates, until they explode; and what was not finite, if that ended them."""
    losses: list[float] = []
    with torch.random.fork_rng(devices=()), without_denormals(settings.machine.threads):
        loop = Loop(settings, make_fabric(settings))
        for lr in rates:
            loop.optimizers.set_rates(loop.network, _at(settings.optimiser, lr))
            try:
                loss, _ = loop.train_step()
            except DivergedError as error:
                return losses, str(error)
            smoothed = smooth([*losses, loss])
            if smoothed[-1] > max(smoothed[0], EXPLODED * min(smoothed)):
                return losses, ""
            losses.append(loss)
    return losses, ""


def _without_schedule(settings: Settings) -> Settings:
    """One process and a rate that nothing else changes; all rates resolved."""
    optimiser = settings.resolved().optimiser
    flat = {"schedule": "constant", "plateau": 0, "step_size": 0, "cosine_end": 0.0, "cosine_steps": None, "warmup": 0}
    return settings.replace(**flat, lr_orthogonal=optimiser.lr_orthogonal, processes=1).resolved()


def _short(rate: float, digits: int = 6) -> float:
    return float(f"{rate:.{digits}g}")


def _ratio(optimiser: Optimiser) -> float:
    return (optimiser.lr_orthogonal or optimiser.lr / 10) / optimiser.lr


def _at(optimiser: Optimiser, lr: float) -> Optimiser:
    """The same optimiser at another rate, with the others in the same ratio to it."""
    factor = lr / optimiser.lr
    groups = tuple(replace(each, lr=None if each.lr is None else factor * each.lr) for each in optimiser.groups)
    return replace(optimiser, lr=lr, lr_orthogonal=_ratio(optimiser) * lr, groups=groups)
