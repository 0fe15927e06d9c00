"""Fisher memory in float64, with an estimate of its error."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from engram.probe.fisher._sums import finite_sum, infinite_sum


@dataclass(frozen=True)
class FisherNumbers:
    """Fisher memory for noise of variance 1, in whatever arithmetic."""

    matrix: np.ndarray
    """J_kl, (K, K)."""
    spatial: np.ndarray
    """J^(s), (N, N)."""
    total: float
    """J_tot."""
    error: float
    """Of J_tot."""
    method: str
    """The arithmetic, as it is shown."""


def responses(recurrent: np.ndarray, signal: np.ndarray, lags: int) -> np.ndarray:
    """(N, K): column k is W^k v."""
    columns = [signal]
    for _ in range(lags - 1):
        columns.append(recurrent @ columns[-1])
    return np.stack(columns, 1)


def float64(recurrent: np.ndarray, signal: np.ndarray, lags: int, steps: int | None) -> FisherNumbers | None:
    """J_kl, J^(s) and J_tot through the Cholesky factor of C; None where float64 cannot compute them at all.

    C is scaled to a unit diagonal. The relative error is estimated as N 2^-52 times the condition number of that, or as
    the error of Tr J^(s) = N, which holds for every W, if it is larger.
    """
    one = np.eye(len(recurrent))
    with np.errstate(all="ignore"):  # a sum that overflows is noticed below
        if steps is None:
            covariance, taken = infinite_sum(recurrent, one, np.matmul, lambda matrix: float(np.linalg.norm(matrix)))
        else:
            covariance, taken = finite_sum(recurrent, one, steps, np.matmul), steps
    if not taken or not np.isfinite(covariance).all():
        return None
    unit = 1 / np.sqrt(covariance.diagonal())
    scaled = unit[:, None] * covariance * unit
    try:
        factor = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    white = solve_triangular(factor, unit[:, None] * responses(recurrent, signal, lags), lower=True)
    inverse = unit[:, None] * cho_solve((factor, True), np.diag(unit))
    spatial = finite_sum(recurrent.T, inverse, taken, np.matmul)
    spatial = (spatial + spatial.T) / 2
    total = float(signal @ spatial @ signal)
    identity = abs(float(np.trace(spatial)) / len(recurrent) - 1)
    share = max(len(scaled) * float(np.linalg.cond(scaled)) * 2.0**-52, identity)
    return FisherNumbers(white.T @ white, spatial, total, share * abs(total), "float64")
