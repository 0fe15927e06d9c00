"""How a curve over the lags falls or grows: exponential, polynomial, flat."""

import math
from dataclasses import dataclass

import numpy as np

LEFT = 0.01
"""Below one hundredth of the largest value counts as gone."""
FEW = 3
"""With fewer points no decay pattern is fitted."""


@dataclass(frozen=True)
class Decay:
    """A law fitted to g_k > 0, k = 1 .. K, by least squares on the logarithms.

    exponential: log g = a + b k; polynomial: log g = a + b log(1 + k); the one with the smaller error. It is ``flat``
    if it changes by less than a factor of 2 over the lags, ``irregular`` if it explains less than half of the variance
    of log g, ``none`` if fewer than three lags are above zero.

    kind: one of these names. rate: b. change: the fitted g_K / g_1. r2: the explained share of the variance of log g.
    """

    kind: str
    rate: float
    change: float
    r2: float


def fit_decay(norms: np.ndarray) -> Decay:
    """The law of a curve ``(K+1)`` over the lags 0 .. K, fitted from lag 1 on.

    >>> fit_decay(0.9 ** np.arange(50)).kind, fit_decay((1 + np.arange(500.0)) ** -2).kind
    ('exponential', 'polynomial')
    """
    lags = np.flatnonzero(np.isfinite(norms) & (norms > 1e-37))  # below, float32 has lost its digits
    lags = lags[lags > 0]
    if len(lags) < FEW:
        return Decay("none", 0.0, 1.0, 0.0)
    logs = np.log(norms[lags])
    fits = {kind: _line(x, logs) for kind, x in (("exponential", lags.astype(float)), ("polynomial", np.log(1 + lags)))}
    kind, (rate, error, change) = min(fits.items(), key=lambda item: item[1][1])
    spread = float(((logs - logs.mean()) ** 2).sum())
    r2 = 1 - error / spread if spread > 0 else 1.0
    if abs(change) < math.log(2):
        kind = "flat"
    elif r2 < 0.5:
        kind = "irregular"
    return Decay(kind, rate, math.exp(min(change, 700.0)), r2)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Slope, summed squared error, and the change from the first point to the last of the fitted line."""
    slope, level = np.polyfit(x, y, 1)
    return float(slope), float(((slope * x + level - y) ** 2).sum()), float(slope * (x[-1] - x[0]))


def horizon(norms: np.ndarray) -> int | None:
    """The first lag from which on less than 1 % of the largest value is left; None if that is beyond the last lag."""
    if not np.nanmax(norms, initial=0.0):
        return 0
    large = np.flatnonzero(norms >= LEFT * np.nanmax(norms))
    last = int(large[-1]) if len(large) else 0
    return None if last == len(norms) - 1 else last + 1


def expected_horizon(law: Decay) -> float | None:
    """The lag where a falling law, exponential or polynomial, reaches 1 % of its value at lag 0; None for others."""
    if law.rate >= 0 or law.kind not in ("exponential", "polynomial"):
        return None
    first = math.log(LEFT) / law.rate
    if law.kind == "exponential":
        return first
    return math.exp(first) - 1 if first < 700 else None
