"""Sums of W^k S W^k' by doubling, in any arithmetic: noise covariance and spatial Fisher matrix are both such sums.

    S_m = sum_{k<m} W^k S W^k',     S_2m = S_m + W^m S_m W^m'.

The sum over all k solves the discrete Lyapunov equation C = W C W' + S. Every term is positive, so nothing cancels.
A matrix is a numpy array or a flint ``arb_mat``: both add with + and have ``transpose()``; the product is an argument.
"""

import math
from collections.abc import Callable
from typing import Any

Matrix = Any
Product = Callable[[Matrix, Matrix], Matrix]

DOUBLINGS = 50
"""At most 2^50 steps: a spectral radius nearer to 1 counts as 1."""
TAIL = 2.0**-66
"""What the terms left out may add, as a share of the smallest eigenvalue of the sum."""


def finite_sum(matrix: Matrix, start: Matrix, steps: int, product: Product) -> Matrix:
    """sum_{k < steps} W^k S W^k', in about log2(steps) doublings."""
    total, power = start, matrix
    for bit in bin(steps)[3:]:  # after the leading one: each bit doubles, a set bit adds one step
        total = total + product(product(power, total), power.transpose())
        power = product(power, power)
        if bit == "1":
            total = start + product(product(matrix, total), matrix.transpose())
            power = product(matrix, power)
    return total


def infinite_sum(
    matrix: Matrix, start: Matrix, product: Product, norm: Callable[[Matrix], float]
) -> tuple[Matrix, int]:
    """The sum over all k for S = I, and the number of steps after which the rest is below ``TAIL``.

    With q = |W^m|_F < 1 the rest is at most q^2 / (1 - q^2) |S_m|_F, and the sum is at least I: what is left out
    changes no Fisher information by more than that share. Returns 0 steps if the sum does not converge.
    """
    total, power, steps = start, matrix, 1
    for _ in range(DOUBLINGS):
        total = total + product(product(power, total), power.transpose())
        power, steps = product(power, power), 2 * steps
        size = norm(power)
        left = size * size  # not **, which raises where this gives infinity
        if not math.isfinite(left):
            break
        if left < 0.5 and 2 * left * norm(total) < TAIL:
            return total, steps
    return total, 0
