"""Lyapunov exponents along real data: how fast small differences of the state grow or die (QR method).

Small differences obey u_t = J_t u_{t-1}, J_t = d h_t / d h_{t-1}. Carry an orthonormal frame along and
reorthonormalise: J_{t+m} ... J_{t+1} Q = Q' R; the exponents are the means of log |R_ii| / m. They come in falling
order, and the sum of all N is the mean of log |det J_t|.

A direction that shrinks within one interval below the rounding of the others is dead: its exponent is minus infinity.
So it is for a delay line, which forgets all after N steps. Where m directions die only together, over m steps, beside
ones that live, rounding keeps them alive at about log(1e-16) / m.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, ShapeError, check_size
from engram.probe._plain import plain
from engram.probe._tangents import Step, push

BLOCKS = 8
"""Pieces of each path whose scatter gives the error bar."""


@dataclass(frozen=True)
class Lyapunov:
    """What :func:`lyapunov` found. Exponents are natural logarithms per step."""

    exponents: np.ndarray
    """(count,), in falling order."""
    errors: np.ndarray
    """(count,): one standard error, from the scatter over pieces of the paths and over the batch."""
    running: np.ndarray
    """(renormalisations, count): the estimate from the data up to there; flat when it has converged."""
    steps: int
    """Steps that count, after the burn-in."""
    burn_in: int
    interval: int
    """Steps between two reorthonormalisations."""
    size: int
    """N, the size of the state."""

    @property
    def total(self) -> float | None:
        """The sum of all exponents, the mean of log |det J|; None if fewer than N were followed."""
        return float(self.exponents.sum()) if len(self.exponents) == self.size else None

    @property
    def dead(self) -> int:
        """How many directions die outright: an exponent of minus infinity."""
        return int((self.exponents == -math.inf).sum())

    @property
    def dimension(self) -> float | None:
        """Kaplan and Yorke's dimension: how many exponents, from the largest, still sum to 0. None if not all known."""
        sums = np.cumsum(self.exponents)
        count = int((sums >= 0).sum())  # the sums rise, then fall: those not below 0 come first
        if count == len(sums):
            return float(self.size) if count == self.size else None
        return count + float(sums[count - 1] / abs(self.exponents[count])) if count else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an exponent of minus infinity is None."""
        return {**plain(self), "total": plain(self.total), "dimension": plain(self.dimension), "dead": self.dead}

    def words(self) -> str:
        """What it means, for a student."""
        top, error = float(self.exponents[0]), float(self.errors[0])
        unsure = max(2 * error, math.log(2) / self.steps)  # less than a factor of 2 over all the steps, or not sure
        head = f"Lyapunov: the largest exponent is {top:.4g} ± {error:.2g} per step"
        if top == -math.inf:
            return f"{head}: every small difference of the state dies outright after some steps."
        if abs(top) <= unsure:
            return f"{head}, that is 0: small differences of the state neither grow nor die, so the past is kept."
        gone = f" {self.dead} of {self.size} directions die outright." if self.dead else ""
        if top > 0:
            many = int((self.exponents > unsure).sum())
            least = "at least " if many == len(self.exponents) < self.size else ""  # there may be more, not followed
            return (
                f"{head}: unstable. A small difference of the state doubles every {math.log(2) / top:.3g} steps, in "
                f"{least}{many} of {self.size} directions; what it remembers is drowned by what it amplifies.{gone}"
            )
        return (
            f"{head}: stable. A small difference of the state, a memory too, is halved every "
            f"{math.log(2) / -top:.3g} steps, even in the direction that lasts longest.{gone}"
        )

    def draw(self, axes: Any) -> None:
        """The spectrum with its error bars."""
        places = np.arange(1, len(self.exponents) + 1)
        axes.axhline(0, color="#888888", linewidth=0.9)
        axes.errorbar(places, self.exponents, self.errors, color="#0b5fa5", fmt="o-", markersize=3, linewidth=0.9)
        axes.set(xlabel="exponent number", ylabel="growth per step (log)")
        axes.xaxis.get_major_locator().set_params(integer=True)
        dead = f", {self.dead} of {len(places)} dead" if self.dead else ""
        axes.set_title(f"Lyapunov exponents, {self.steps} steps{dead}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)


def lyapunov(
    step: Step,
    state: Tensor,
    inputs: Tensor,
    *,
    count: int | None = None,
    burn_in: int | None = None,
    interval: int = 1,
    jacobian: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Lyapunov:
    """The ``count`` largest Lyapunov exponents of ``step`` along ``inputs``, averaged over the batch.

    Args:
        step: (state (B, N), input (B, D)) -> state (B, N).
        state: (B, N), where the paths begin.
        inputs: (B, T, D), the data.
        count: how many exponents; all N if not given.
        burn_in: steps that are walked but not counted, so that the state and the frame find their place; T // 10 if
            not given.
        interval: steps between two QR decompositions. More is faster; with too many the frame's columns fall together,
            and the last ones count as dead.
        jacobian: (state, input) -> (B, N, N), if you know it; else it is taken by automatic differentiation.

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
    frame, largest = _first_frame(state, count), 0.0
    rounding = size * torch.finfo(state.dtype).eps
    found = []
    for piece in _pieces(length, burn_in, interval):
        for time in range(*piece):
            if jacobian is None:
                state, frame = push(step, state, inputs[:, time], frame)
            else:
                frame = jacobian(state, inputs[:, time]).detach() @ frame
                state = step(state, inputs[:, time]).detach()
        largest = max(largest, float(frame.norm(dim=1).max()))
        wide = torch.promote_types(frame.dtype, torch.float32)  # LAPACK has no numbers of 16 bits
        orthonormal, triangle = torch.linalg.qr(frame.to(wide))
        frame = orthonormal.to(frame.dtype)
        if piece[0] >= burn_in:
            gains = triangle.diagonal(dim1=-2, dim2=-1).double().abs()
            found.append(gains.where(gains > rounding * largest, 0).log() / interval)
    rates = torch.stack(found, 1).numpy()  # (B, renormalisations, count)
    return _estimate(rates, burn_in, interval, size)


def _first_frame(state: Tensor, count: int) -> Tensor:
    """(B, N, count), orthonormal, random so that no direction is missed; torch's own generator is not touched."""
    draw = torch.randn(state.shape[1], count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.linalg.qr(draw)[0].to(state).expand(len(state), -1, -1)


def _pieces(length: int, burn_in: int, interval: int) -> list[tuple[int, int]]:
    """(start, end) between reorthonormalisations; the end of the burn-in is a border, a last short piece falls away."""
    before = [(start, min(start + interval, burn_in)) for start in range(0, burn_in, interval)]
    return before + [(end - interval, end) for end in range(burn_in + interval, length + 1, interval)]


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
