"""Arithmetic modulo a prime against Python's integers."""

import numpy as np
import pytest

from engram.exact import PRIME, FieldMatrix, product, sample


@pytest.mark.parametrize("prime", [PRIME, 2**31 - 1, 2, 101])
@pytest.mark.parametrize("inner", [1, 3, 4, 5, 8, 9, 64, 65, 200])
def test_product_is_exact(inner: int, prime: int) -> None:
    """Also with every residue at its largest, where sums come closest to overflowing."""
    for a, b in (
        (sample(prime, 0, 0, 5, inner), sample(prime, 0, 1, inner, 3)),
        (np.full((5, inner), prime - 1, dtype=np.uint64), np.full((inner, 3), prime - 1, dtype=np.uint64)),
    ):
        assert np.array_equal(product(a, b, prime), (a.astype(object) @ b.astype(object) % prime).astype(np.uint64))


def test_both_ways_to_fill_a_matrix() -> None:
    """Into FLINT's memory, and number by number."""
    entries = sample(PRIME, 3, 0, 7, 7)
    fast, slow = FieldMatrix(7, 7, PRIME), FieldMatrix(7, 7, PRIME)
    assert fast.memory is not None
    slow.memory = None
    for matrix in (fast, slow):
        matrix.fill(0, entries[:4])
        matrix.fill(4, entries[4:])
    assert fast.matrix == slow.matrix
    assert [[int(entry) for entry in row] for row in fast.matrix.tolist()] == entries.tolist()


def test_the_same_weights_for_ever() -> None:
    """A certificate of today must be checkable in years: these numbers may never change."""
    assert sample(PRIME, 7, 3, 4).tolist() == [1328282791, 1113949880, 410559735, 1334710938]
