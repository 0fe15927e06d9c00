"""Which arithmetic computes Fisher memory: float64, or balls of many bits where float64 would be wrong."""

import numpy as np

from engram.errors import OptionError, ShapeError
from engram.probe.fisher._extended import extended
from engram.probe.fisher._float64 import FisherNumbers, float64

PRECISIONS = ("auto", "float64", "extended")
TOLERANCE = 1e-8
"""The relative error of J_tot above which "auto" leaves float64."""
LARGEST_EXTENDED = 128
"""N up to which "auto" turns to extended precision (some ten seconds); beyond, the error is reported."""


def fisher_numbers(
    recurrent: np.ndarray, signal: np.ndarray, lags: int, steps: int | None, precision: str
) -> FisherNumbers:
    """J_kl, J^(s) and J_tot for noise of variance 1, in the arithmetic that ``precision`` names."""
    radius = float(np.abs(np.linalg.eigvals(recurrent)).max())
    if steps is None and radius >= 1 and precision != "extended":
        raise OptionError(
            f"Fisher memory of an infinite past needs a spectral radius of W below 1, got {radius:.6g}: the noise "
            "would grow without bound; give steps=T for a process that began T steps ago (or precision='extended' for "
            "a W so far from normal that float64 misses its eigenvalues)"
        )
    found = None if precision == "extended" else float64(recurrent, signal, lags, steps)
    wrong = found is None or found.error > TOLERANCE * found.total
    if precision == "extended" or (precision == "auto" and wrong and len(recurrent) <= LARGEST_EXTENDED):
        found = extended(recurrent, signal, lags, steps, TOLERANCE)
    if found is None:
        raise OptionError(
            f"float64 fails for this W (N = {len(recurrent)}): the covariance is singular; use precision='extended'"
        )
    return found


def as_real(recurrent: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and v over the real numbers; z -> W z is [[Re, -Im], [Im, Re]] on (Re z, Im z)."""
    if signal.shape != (len(recurrent),):
        raise ShapeError(
            f"v must have the shape ({len(recurrent)},), one weight for each row of W, got {signal.shape}; "
            "for several inputs give one direction of them, U @ direction"
        )
    if not signal.any():
        raise OptionError("v is 0: the signal never enters the state, so there is no memory of it to measure")
    if not (np.iscomplexobj(recurrent) or np.iscomplexobj(signal)):
        return recurrent, signal
    re, im = recurrent.real, recurrent.imag
    return np.block([[re, -im], [im, re]]), np.concatenate([signal.real, signal.imag])
