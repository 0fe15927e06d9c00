"""The degree of a polynomial from its values."""

from collections.abc import Sequence

import numpy as np


def degree_of(values: Sequence[int], prime: int) -> int:
    """The degree of f modulo p from f(0), f(1), ..., f(K-1); -1 for f = 0. Right if the degree is below K <= p.

    The differences f(z + 1) - f(z) have a degree lower by one; those of a constant are 0.

    Args:
        values: f(0), f(1), ..., f(K-1), modulo p.
        prime: p.

    >>> degree_of([z**3 - z for z in range(6)], 101)
    3
    """
    left = np.array([value % prime for value in values], dtype=np.int64)
    degree = -1
    while left.any():
        degree += 1
        left = np.diff(left) % prime
    return degree
