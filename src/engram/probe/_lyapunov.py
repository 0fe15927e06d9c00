"""Lyapunov exponents: how fast small differences of the state grow or die along real data (QR method).

Small differences obey u_t = J_t u_{t-1}, J_t = d h_t / d h_{t-1}. An orthonormal frame is carried along and made
orthonormal again every m steps: J_{t+m} ... J_{t+1} Q = Q' R; the exponents are the means of log |R_ii| / m (Benettin
et al. 1980). They come in falling order, and the sum of all N is the mean of log |det J_t|.

A direction that shrinks within one interval below the rounding of the others is dead: its exponent is minus infinity.
So it is for a delay line, which forgets everything after N steps. Where m directions die only together, over m steps,
beside ones that live, rounding keeps them alive at about log(1e-16) / m.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, ShapeError, check_size
from engram.figures import BLUE, MUTED
from engram.probe._cost import Cost, seconds_of
from engram.probe._frames import Jacobian, growth_rates
from engram.probe._json import as_json
from engram.probe._part import Part
from engram.probe._setup import Setup
from engram.probe._tangents import Step, step_with_tangents

BLOCKS = 8
"""Pieces of each path whose scatter gives the error bar."""
FOLLOWED = 16
"""Exponents of a profile, the largest."""
WIDE = 256
"""The states of a profile above which only one sequence is followed."""


@dataclass(frozen=True)
class Lyapunov(Part):
    """What :func:`lyapunov` found. Exponents are natural logarithms per step."""

    name = "lyapunov"
    title = "Lyapunov"
    question = "Do small differences of the state grow or die, along the data?"

    exponents: np.ndarray
    """(count,), in falling order."""
    errors: np.ndarray
    """(count,): one standard error, from the scatter over pieces of the paths and over the batch."""
    running: np.ndarray
    """(intervals, count): the estimate from the data up to there; flat when it has converged."""
    steps: int
    """Steps counted, after the burn-in."""
    burn_in: int
    """First steps, not counted."""
    interval: int
    """Steps between two reorthonormalisations."""
    size: int
    """N, the size of the state."""

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """Every step once, with the small differences that are followed."""
        if not setup.subject.can_step:
            return Cost()
        return Cost(steps=setup.length, seconds=setup.length * seconds_of(lambda: _one_step(setup)))

    @classmethod
    def measure(cls, setup: Setup) -> "Lyapunov":
        """The 16 largest, along the inputs; of a large state along one sequence."""
        subject, inputs = setup.subject, setup.inputs
        subject.require_state()
        if subject.state_size > WIDE and inputs.shape[1] > 1:
            inputs = inputs[:, :1]
            setup.notes.append(f"of a state of {subject.state_size} numbers Lyapunov exponents are along one sequence")
        with subject:
            state = subject.advance(None, inputs[:1])[1].detach()
            return lyapunov(subject.step, state, inputs[1:].transpose(0, 1), count=min(subject.state_size, FOLLOWED))

    @property
    def total(self) -> float | None:
        """The sum of all exponents, the mean of log |det J|; None if fewer than N were followed."""
        return float(self.exponents.sum()) if len(self.exponents) == self.size else None

    @property
    def dead(self) -> int:
        """How many of the directions that were followed die at once: an exponent of minus infinity."""
        return int((self.exponents == -math.inf).sum())

    @property
    def dimension(self) -> float | None:
        """Kaplan and Yorke's dimension: how many exponents, from the largest, sum to 0. None if too few are known."""
        sums = np.cumsum(self.exponents)
        count = int((sums >= 0).sum())  # the sums rise, then fall: those not below 0 come first
        if count == len(sums):
            return float(self.size) if count == self.size else None
        return count + float(sums[count - 1] / abs(self.exponents[count])) if count else 0.0

    @property
    def unsure(self) -> float:
        """Exponents nearer to 0 count as 0: two standard errors, or a factor of 2 over all steps if that is more."""
        return max(2 * float(self.errors[0]), math.log(2) / self.steps)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an exponent of minus infinity is None."""
        return {**as_json(self), "total": as_json(self.total), "dimension": as_json(self.dimension), "dead": self.dead}

    def headline(self) -> str:
        top = float(self.exponents[0])
        if top == -math.inf:
            return "every small difference of the state dies after some steps."
        if abs(top) <= self.unsure:
            how = "neutral, small differences of the state neither grow nor die"
        elif top > 0:
            how = f"unstable, a small difference of the state doubles every {math.log(2) / top:.3g} steps"
        else:
            how = f"stable, a small difference of the state is halved every {math.log(2) / -top:.3g} steps"
        return f"{how} (largest exponent {top:.4g} ± {float(self.errors[0]):.2g} per step)."

    def details(self) -> str:
        told = []
        if self.exponents[0] > self.unsure:
            many = int((self.exponents > self.unsure).sum())
            least = "At least " if many == len(self.exponents) < self.size else ""  # there may be more, not followed
            told.append(f"{least}{many} of {self.size} directions grow, and drown what the state remembers.")
        if self.dead and self.exponents[0] > -math.inf:
            alive = len(self.exponents) - self.dead  # exponents fall: what was not followed beyond a dead one is dead
            told.append(f"{self.size - alive} of {self.size} directions die at once.")
        return " ".join(told)

    def brief(self) -> str:
        return f"{self.exponents[0]:.2g} per step"

    def plot(self, axes: Any) -> None:
        """The exponents with their error bars."""
        places = np.arange(1, len(self.exponents) + 1)
        axes.axhline(0, color=MUTED, linewidth=0.9)
        axes.errorbar(places, self.exponents, self.errors, color=BLUE, fmt="o-", markersize=3, linewidth=0.9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        dead = f", {self.dead} of {len(places)} dead" if self.dead else ""
        title = f"Lyapunov exponents, {self.steps} steps{dead}"
        axes.set(title=title, xlabel="exponent number", ylabel="growth per step (log)")


def lyapunov(
    step: Step,
    state: Tensor,
    inputs: Tensor,
    *,
    count: int | None = None,
    burn_in: int | None = None,
    interval: int = 1,
    jacobian: Jacobian | None = None,
) -> Lyapunov:
    """The ``count`` largest Lyapunov exponents of ``step`` along ``inputs``, averaged over the batch.

    Args:
        step: (state (B, N), input (B, D)) -> state (B, N).
        state: (B, N), where the paths begin.
        inputs: (B, T, D), the data.
        count: how many exponents. Default: all N.
        burn_in: first steps that are not counted, in which state and frame settle. Default: T // 10.
        interval: steps between two QR decompositions. More is faster; with too many the frame's columns fall together,
            and the last ones count as dead.
        jacobian: (state, input) -> (B, N, N), if you know it. Default: by automatic differentiation.

    >>> halve = torch.diag(torch.tensor([0.5, 2.0], dtype=torch.float64))
    >>> found = lyapunov(lambda h, x: h @ halve, torch.zeros(1, 2).double(), torch.zeros(1, 50, 1).double())
    >>> found.exponents.round(4).tolist()
    [0.6931, -0.6931]
    """
    if state.ndim != 2 or inputs.ndim != 3 or len(state) != len(inputs):
        raise ShapeError(
            f"state (B, N) and inputs (B, T, D) are needed, got {tuple(state.shape)} and {tuple(inputs.shape)}"
        )
    size, length = state.shape[1], inputs.shape[1]
    count = check_size("count", size if count is None else count)
    interval = check_size("interval", interval)
    burn_in = check_size("burn_in", length // 10 if burn_in is None else burn_in, least=0)
    if count > size:
        raise OptionError(f"count must be at most N = {size}, the size of the state, got {count}")
    if length - burn_in < 2 * interval:
        raise OptionError(
            f"at least two intervals of {interval} must follow the burn-in of {burn_in}, got {length} steps in all"
        )
    rates = growth_rates(step, state, inputs, count, burn_in, interval, jacobian)
    return _estimate(rates, burn_in, interval, size)


def _one_step(setup: Setup) -> None:
    """One step with the small differences that are followed, to be timed."""
    subject, first = setup.subject, setup.inputs[0, :1] if setup.subject.state_size > WIDE else setup.inputs[0]
    with suppress(Exception):  # what fails here fails again in the part, which says so
        state = subject.step(None, first).detach()
        frame = torch.eye(subject.state_size, min(FOLLOWED, subject.state_size)).to(state)
        step_with_tangents(subject.step, state, first, frame.expand(len(state), -1, -1))


def _estimate(rates: np.ndarray, burn_in: int, interval: int, size: int) -> Lyapunov:
    pieces = rates.shape[1]
    blocks = np.concatenate([part.mean(1) for part in np.array_split(rates, min(BLOCKS, pieces), axis=1)])
    with np.errstate(invalid="ignore"):  # minus infinity, where a direction dies in one step, has no scatter
        errors = blocks.std(0, ddof=1) / math.sqrt(len(blocks))
        running = np.cumsum(rates.mean(0), 0) / np.arange(1, pieces + 1)[:, None]
    exponents = rates.mean((0, 1))
    order = np.argsort(-exponents, kind="stable")  # near ties may come out swapped
    return Lyapunov(
        exponents[order], np.nan_to_num(errors[order]), running[:, order], pieces * interval, burn_in, interval, size
    )
