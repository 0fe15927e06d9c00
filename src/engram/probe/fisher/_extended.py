"""Fisher memory in ball arithmetic (FLINT's arb): every number carries a proven bound of its error.

The number of bits rises until the balls are small enough.
"""

import operator

import numpy as np
from flint import arb, arb_mat, ctx

from engram.errors import OptionError
from engram.probe.fisher._float64 import FisherNumbers
from engram.probe.fisher._sums import TAIL, finite_sum, infinite_sum

FIRST, MOST = 192, 6144
"""Bits to begin with, and to give up at."""


def extended(
    recurrent: np.ndarray, signal: np.ndarray, lags: int, steps: int | None, tolerance: float
) -> FisherNumbers:
    """J_kl (K, K), J^(s) (N, N) and J_tot of h_t = W h_{t-1} + v s_t + z_t, J_tot to a relative ``tolerance``.

    Takes seconds at N = 100; the time grows as N^3, and with the bits, of which a larger N needs more.
    """
    before, bits = ctx.prec, FIRST
    try:
        while bits <= MOST:
            ctx.prec = bits
            found = _with_bits(recurrent, signal, lags, steps, bits)
            if found is not None and found.error <= tolerance * found.total:
                return found
            bits += bits // 2
    finally:
        ctx.prec = before
    raise OptionError(
        f"Fisher memory is not certain even with {MOST} bits: either the spectral radius of W is not below 1 (give "
        "steps=T for a process that began T steps ago) or J_tot is 0"
    )


def _with_bits(
    recurrent: np.ndarray, signal: np.ndarray, lags: int, steps: int | None, bits: int
) -> FisherNumbers | None:
    """The numbers with this many bits; None where a ball has become infinite."""
    size = len(recurrent)
    w, v, one = (arb_mat(values.tolist()) for values in (recurrent, signal[:, None], np.eye(size)))
    if steps is None:
        covariance, taken = infinite_sum(w, one, operator.mul, _norm)
        if not taken:
            return None
    else:
        covariance, taken = finite_sum(w, one, steps, operator.mul), steps
    columns = [v]
    for _ in range(lags - 1):
        columns.append(w * columns[-1])
    responses = arb_mat(size, lags, [columns[k][i, 0] for i in range(size) for k in range(lags)])
    try:
        inverse = covariance.inv()
    except ZeroDivisionError:
        return None
    spatial = finite_sum(w.transpose(), inverse, taken, operator.mul)
    matrix, total = responses.transpose() * inverse * responses, (v.transpose() * spatial * v)[0, 0]
    if not total.is_finite():
        return None
    left_out = 0.0 if steps is not None else 2 * TAIL * size * float(signal @ signal)
    radii = [total.rad(), *(matrix[k, k].rad() for k in range(lags))]
    error = max(float(radius.upper()) for radius in radii) + left_out
    return FisherNumbers(_rounded(matrix), _rounded(spatial), float(total.mid()), error, f"extended ({bits} bits)")


def _norm(matrix: arb_mat) -> float:
    """An upper bound of the Frobenius norm."""
    return float(sum((entry * entry for entry in matrix.entries()), arb(0)).sqrt().upper())


def _rounded(matrix: arb_mat) -> np.ndarray:
    return np.array([float(entry.mid()) for entry in matrix.entries()]).reshape(matrix.nrows(), matrix.ncols())
