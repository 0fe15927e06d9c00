"""Transient growth: how large |W^t| becomes before it decays."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from engram.errors import check_size
from engram.probe._arrays import square_matrix

ROUNDING = 1e-10
"""Relative; a smaller difference is rounding."""
HUGE = 1e100
"""Where following stops: the next powers would overflow."""


@dataclass(frozen=True)
class Growth:
    """|W^t| over t, as far as it was followed."""

    times: np.ndarray
    norms: np.ndarray
    """|W^t|_2 at these times; times[0] = 0, norms[0] = 1."""
    proven: bool
    """No later t can have a larger norm: |W^m| <= 1 was reached, so |W^(m+t)| <= |W^t|, and no t was skipped."""

    @property
    def peak(self) -> float:
        """The largest norm."""
        return float(self.norms.max())

    @property
    def peak_time(self) -> int:
        """The first time at the peak, up to rounding: 0 for an orthogonal matrix."""
        return int(self.times[np.argmax(self.norms >= self.peak * (1 - ROUNDING))])


def transient_growth(W: Tensor | np.ndarray, *, steps: int = 256) -> Growth:
    """|W^t|_2 at t = 0, 1, ... up to twice the first t with |W^t| <= 1, after which nothing larger can come.

    Args:
        W: (N, N), real or complex.
        steps: how far every t is followed. Then t doubles, up to 2^20, until |W^t| <= 1.
    """
    matrix = square_matrix(W)
    check_size("steps", steps)
    times, norms, power, back = [0], [1.0], np.eye(len(matrix)), 0
    while times[-1] < steps and norms[-1] < HUGE:
        power = matrix @ power
        times.append(times[-1] + 1)
        norms.append(float(np.linalg.norm(power, 2)))
        back = back or (times[-1] if norms[-1] <= 1 + ROUNDING else 0)
        if back and times[-1] >= max(16, 2 * back):
            break
    if not back and float(np.abs(np.linalg.eigvals(matrix)).max()) < 1:
        while 1 < norms[-1] < HUGE and times[-1] < 2**20:
            power = power @ power
            times.append(2 * times[-1])
            norms.append(float(np.linalg.norm(power, 2)))
    return Growth(np.array(times), np.array(norms), bool(back))
