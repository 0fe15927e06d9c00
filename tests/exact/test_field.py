"""Arithmetic modulo a prime against Python's integers."""

import numpy as np
import pytest

from engram.errors import DTypeError, OptionError
from engram.exact import PRIME, FieldMatrix, check_prime, check_seed, product, rank, sample, times


@pytest.mark.parametrize("prime", [PRIME, 2**31 - 1, 2, 101])
@pytest.mark.parametrize("inner", [1, 3, 4, 5, 8, 9, 64, 65, 200])
def test_product_is_exact(inner: int, prime: int) -> None:
    """Also with every residue at its largest, where sums come closest to overflowing."""
    for a, b in (
        (sample(prime, 0, 0, 5, inner), sample(prime, 0, 1, inner, 3)),
        (np.full((5, inner), prime - 1, dtype=np.uint64), np.full((inner, 3), prime - 1, dtype=np.uint64)),
    ):
        assert np.array_equal(product(a, b, prime), (a.astype(object) @ b.astype(object) % prime).astype(np.uint64))


def test_elementwise() -> None:
    """Also of the largest residues; p - 1 is -1."""
    a, b = sample(PRIME, 0, 0, 4, 5), sample(PRIME, 0, 1, 4, 5)
    assert np.array_equal(times(a, b, PRIME), a.astype(object) * b.astype(object) % PRIME)
    largest = np.full(3, PRIME - 1, dtype=np.uint64)
    assert times(largest, largest, PRIME).tolist() == [1, 1, 1]


def test_primes_and_seeds() -> None:
    """The largest prime below 2^31 is 2^31 - 1; 2^31 + 11 is one too, and products of its residues need 63 bits."""
    for prime in (2, 3, 101, PRIME, 2**31 - 1):
        assert check_prime(prime) == prime
    for none in (-7, 0, 1, 4, 2**31 - 3, 2**31, 2**31 + 11, 2**61 - 1):
        with pytest.raises(OptionError, match="prime must be"):
            check_prime(none)
    assert (check_seed(0), check_seed(2**64 - 1)) == (0, 2**64 - 1)
    for none in (-1, 2**64):
        with pytest.raises(OptionError, match="seed must be at"):
            check_seed(none)
    with pytest.raises(DTypeError):
        check_prime(7.0)  # type: ignore[arg-type]


def test_samples_are_all_residues_but_zero() -> None:
    found = sample(7, 0, 0, 700)
    assert sorted(set(found.tolist())) == [1, 2, 3, 4, 5, 6]
    assert not np.array_equal(found, sample(7, 0, 1, 700))
    assert not np.array_equal(found, sample(7, 1, 0, 700))


def test_rank_by_hand() -> None:
    """The third row is the sum of the others; the last matrix has the determinant 7."""
    three = np.array([[1, 2, 3], [4, 5, 6], [5, 7, 9]], dtype=np.uint64)
    two = np.array([[1, 3], [1, 10]], dtype=np.uint64)
    assert (rank(three, PRIME), rank(two, PRIME), rank(two, 7), rank(0 * two, 7)) == (2, 2, 1, 0)
    filled = FieldMatrix(3, 3, PRIME)
    filled.fill(1, three[1:])
    assert filled.rank() == 2


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
