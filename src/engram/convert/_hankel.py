"""The weighted automaton with the fewest states: as many as the rank of the Hankel matrix H[u, v] = f(uv).

H = P S with rows initial A(u) of P and columns A(v) final of S. The states are restricted to the span of the rows of P,
then to that of the columns of S; the dimension left is the rank of H. Source: Schützenberger (1961).
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpq, fmpq_mat

from engram.errors import check_between

Array = npt.NDArray[Any]
Weights = tuple[Array, Array, Array]
POWER_STEPS = 100


def exact_minimal(initial: Array, transitions: Array, final: Array) -> Weights:
    """The minimal automaton over the rationals; ``initial`` ``(n)``, ``final`` ``(n, C)``; Fractions or integers."""
    weights = _rational(initial[None]), [_rational(move) for move in transitions], _rational(final)
    for _ in range(2):  # forwards; then backwards, which is forwards on the transposed automaton
        start, moves, end = _restricted(*weights)
        weights = end.transpose(), [move.transpose() for move in moves], start.transpose()
    start, moves, end = weights
    return _fractions(start)[0], np.stack([_fractions(move) for move in moves]), _fractions(end)


def _restricted(start: Any, moves: list[Any], end: Any) -> tuple[Any, list[Any], Any]:
    """Restricted to the span of start A(u), u all words. In its reduced basis R a vector v is v[pivots] R."""
    grown, new = start.rref()
    rank = -1
    while rank < new:
        basis, rank = _rows(grown, max(1, new)), new  # at least one state
        if rank < start.ncols():  # else the span is everything
            grown, new = _stacked([basis, *(basis * move for move in moves)]).rref()
    table = basis.table()
    pivots = [next((k for k, entry in enumerate(row) if entry != 0), 0) for row in table]
    return _columns(start, pivots), [_columns(basis * move, pivots) for move in moves], basis * end


def _rows(matrix: Any, count: int) -> Any:
    return fmpq_mat(count, matrix.ncols(), matrix.entries()[: count * matrix.ncols()])


def _columns(matrix: Any, chosen: list[int]) -> Any:
    return fmpq_mat(matrix.nrows(), len(chosen), [row[k] for row in matrix.table() for k in chosen])


def _stacked(parts: list[Any]) -> Any:
    entries = [entry for part in parts for entry in part.entries()]
    return fmpq_mat(sum(part.nrows() for part in parts), parts[0].ncols(), entries)


def _rational(matrix: Array) -> Any:
    rows, columns = matrix.shape
    return fmpq_mat(rows, columns, [fmpq(entry.numerator, entry.denominator) for entry in matrix.flat])


def _fractions(matrix: Any) -> Array:
    entries = [Fraction(int(entry.p), int(entry.q)) for entry in matrix.entries()]
    result = np.empty(len(entries), dtype=object)
    result[:] = entries
    return result.reshape(matrix.nrows(), matrix.ncols())


def numerical_minimal(initial: Array, transitions: Array, final: Array, tolerance: float) -> Weights:
    """The automaton that keeps the singular values of H above ``tolerance`` times the largest: balanced truncation.

    H over all words of up to n - 1 symbols, which are enough for its rank, is not built: P = Q_1 R_1 and S^T = Q_2 R_2
    with n x n triangles, so the singular values of H are those of R_1 R_2^T. The row and the column of a word of k
    symbols are scaled by gamma^k: this keeps the rank, and words of all lengths count alike, whether values grow or
    shrink with the length.
    """
    check_between("tolerance", tolerance, 0, 1)
    gamma = _scale(transitions)
    moves = gamma * transitions
    before, after = _triangle(initial[None], moves), _triangle(final.T, moves.transpose(0, 2, 1))
    left, values, right = np.linalg.svd(before @ after.T)
    rank = max(1, int((values > tolerance * values[0]).sum()))
    if rank == len(initial):  # no state is removed: another basis would only add rounding
        return initial, transitions, final
    root = np.sqrt(values[:rank]) if values[0] > 0 else np.ones(1)
    inward = left[:, :rank].T @ before / root[:, None]  # (rank, n); inward @ outward = I
    outward = after.T @ right[:rank].T / root
    return initial @ outward, inward @ moves @ outward / gamma, inward @ final


def _triangle(start: Array, moves: Array) -> Array:
    """R with R^T R = sum over all words u of up to n - 1 symbols of (start A(u))^T (start A(u)), ``(n, n)``."""
    size = start.shape[1]
    rows: Any = np.zeros((size, size))
    for _ in range(size):
        rows = np.linalg.qr(np.vstack([start, *(rows @ moves)]), mode="r")
    return rows


def _scale(transitions: Array) -> float:
    """gamma such that gamma^(2k) times the sum of squares over all words of k symbols neither grows nor shrinks."""
    largest = float(np.abs(transitions).max()) or 1.0  # divided out, so that no square overflows
    transitions, square, growth = transitions / largest, np.eye(transitions.shape[1]), 0.0
    for _ in range(POWER_STEPS):
        square = (transitions.transpose(0, 2, 1) @ square @ transitions).sum(0)
        growth = float(np.linalg.norm(square))
        if growth == 0:  # all words of many symbols have value 0
            return 1.0 / largest
        square = square / growth
    return float(growth**-0.5 / largest)
