"""The bounds by value, at sizes that were worked out by hand or by another program."""

from itertools import count, product
from math import comb

import pytest

from engram.theory import bounds


def test_multisets() -> None:
    """Against the list of all of them, and the table of 3 kinds."""
    assert [bounds.multiset(3, k) for k in range(9)] == [1, 3, 6, 10, 15, 21, 28, 36, 45]
    for n in range(1, 7):
        for k in range(9):
            assert bounds.multiset(n, k) == comb(n + k - 1, k)
            assert bounds.multiset(n, k, most=20) == min(20, comb(n + k - 1, k))


# M, R, T, L, upper bound of a grid of M templates
UPPER = [
    (4, 3, 6, 1, 3), (8, 8, 4, 1, 8), (2, 2, 8, 2, 10), (3, 3, 8, 2, 45), (3, 4, 10, 2, 224), (4, 3, 6, 2, 30),
    (16, 4, 4, 2, 40), (3, 3, 12, 2, 84), (4, 4, 10, 2, 224), (4, 2, 8, 3, 110), (4, 2, 10, 3, 192), (3, 2, 6, 3, 18),
    (4, 3, 4, 4, 12), (4, 3, 6, 4, 48), (3, 2, 4, 7, 6),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "upper"), UPPER)
def test_upper_bounds_of_circuits(modes: int, channels: int, steps: int, depth: int, upper: int) -> None:
    assert bounds.rac_upper(modes, channels, steps, depth, modes) == upper


# M, R, T, L, Conjecture 1
CONJECTURED = [
    (2, 2, 12, 3, 22), (3, 3, 8, 3, 66), (4, 3, 6, 3, 28), (2, 2, 12, 4, 57), (4, 3, 4, 4, 15), (3, 2, 10, 4, 36),
    (4, 3, 8, 4, 231), (3, 3, 8, 4, 81), (2, 3, 4, 1, 2), (3, 3, 8, 2, 15),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "bound"), CONJECTURED)
def test_the_conjecture(modes: int, channels: int, steps: int, depth: int, bound: int) -> None:
    assert bounds.rac_conjecture(modes, channels, steps, depth) == bound
    assert depth != 2 or bounds.rac_deep(modes, channels, steps) == bound


def test_depth_one() -> None:
    assert [bounds.rac_shallow(*sizes) for sizes in ((4, 3, 6), (2, 5, 4), (2, 5, 10**9))] == [3, 4, 5]


def test_enough_templates_by_trying_all() -> None:
    """The first K from M on that the upper bound allows; the first grid that is too large if none below is enough."""
    for modes, channels, half, depth in product(range(1, 5), range(1, 4), (1, 2, 3), (1, 2, 3, 4)):
        for most in (1, 9, 24, 300):
            sizes = modes, channels, 2 * half, depth
            wanted = bounds.rac_conjecture(*sizes)
            tried = (k for k in count(modes) if k**half > most or bounds.rac_upper(*sizes, k) >= wanted)
            assert bounds.enough_templates(*sizes, max_side=most) == next(tried), (sizes, most)
