"""Ranks of circuits and trains at concrete sizes, of random weights and of the constructions of the proofs."""

from typing import Any

import pytest

from engram.certify import (
    RACConjectureClaim,
    RACDeepClaim,
    RACShallowClaim,
    TTDifferentCoresClaim,
    TTEqualCoresClaim,
    certify,
)
from engram.errors import OptionError


def rank(claim: Any, witness: str = "random") -> int:
    return certify(claim, witness=witness).rank


# M, R, T, depth, rank; computed independently, before this library was written
CIRCUITS = [
    (2, 2, 8, 1, 2), (4, 3, 6, 1, 3), (8, 8, 4, 1, 8),
    (2, 2, 8, 2, 10), (3, 3, 8, 2, 45), (3, 4, 10, 2, 220), (4, 3, 6, 2, 30), (16, 4, 4, 2, 40), (6, 6, 6, 2, 216),
    (4, 2, 8, 3, 106), (2, 2, 12, 3, 64), (3, 2, 10, 3, 162), (3, 3, 8, 4, 81), (2, 2, 12, 4, 64),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "expected"), CIRCUITS)
def test_measured_ranks_of_circuits(modes: int, channels: int, steps: int, depth: int, expected: int) -> None:
    claim = {1: RACShallowClaim, 2: RACDeepClaim}.get(depth)
    made = claim(modes, channels, steps) if claim else RACConjectureClaim(modes, channels, steps, depth=depth)
    found = certify(made)
    assert found.rank == expected
    assert found.holds


# M, R, T, rank of the construction; for the conjecture: M, R, T, L, rank
CONSTRUCTED = [(2, 2, 2, 2), (2, 2, 8, 5), (3, 3, 8, 15), (3, 2, 6, 4), (2, 4, 8, 5), (4, 4, 6, 20), (5, 5, 4, 15)]
PASSED_ON = [(2, 2, 12, 3, 22), (3, 3, 8, 3, 66), (4, 3, 6, 3, 28), (2, 2, 12, 4, 57)]


@pytest.mark.parametrize(("modes", "channels", "steps", "expected"), CONSTRUCTED)
def test_the_construction_of_the_theorem(modes: int, channels: int, steps: int, expected: int) -> None:
    claim = RACDeepClaim(modes, channels, steps)
    assert rank(claim, "construction") == claim.bound == expected


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "expected"), PASSED_ON)
def test_the_assignment_of_the_conjecture(modes: int, channels: int, steps: int, depth: int, expected: int) -> None:
    claim = RACConjectureClaim(modes, channels, steps, depth=depth)
    assert rank(claim, "construction") == claim.bound == expected


@pytest.mark.parametrize(("templates", "expected", "holds"), [(4, 12, False), (6, 18, True), (8, 24, True)])
def test_more_templates_than_modes(templates: int, expected: int, holds: bool) -> None:
    """With R < M as many templates as modes are too few for the conjectured 15."""
    found = certify(RACConjectureClaim(4, 3, 4, templates, depth=4))
    assert (found.rank, found.claim.bound, found.holds) == (expected, 15, holds)


# n, r, d, printed bound, bound, rank of the construction, rank of random cores
TRAINS = [
    (2, 2, 4, 1, 4, 4, 4), (3, 2, 6, 1, 8, 8, 18), (3, 2, 10, 1, 32, 32, 162), (4, 3, 8, 16, 81, 81, 192),
    (4, 5, 8, 256, 256, 256, 256), (5, 3, 6, 8, 27, 27, 75), (5, 6, 6, 125, 125, 125, 125), (3, 4, 8, 81, 81, 81, 81),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "r", "order", "printed", "bound", "constructed", "generic"), TRAINS)
def test_measured_ranks_of_trains(
    modes: int, r: int, order: int, printed: int, bound: int, constructed: int, generic: int
) -> None:
    equal, different = TTEqualCoresClaim(modes, r, order), TTDifferentCoresClaim(modes, r, order)
    assert (equal.more()["printed_bound"], equal.bound, equal.upper) == (printed, bound, generic)
    assert rank(equal, "construction") == constructed
    assert rank(equal) == rank(different) == generic


@pytest.mark.parametrize("templates", [2, 4])
def test_the_construction_has_as_many_templates_as_modes(templates: int) -> None:
    with pytest.raises(OptionError, match=f"as many templates as modes, 3; got {templates}"):
        certify(RACDeepClaim(3, 3, 4, templates), witness="construction")
