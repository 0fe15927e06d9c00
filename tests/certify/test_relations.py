"""The claims invariance and pair-order: at many sizes and seeds, and what would refute them."""

import pytest
from flint import fmpq_mat

from engram.certify import InvarianceClaim, PairOrderClaim, certify
from engram.certify._invariance import orthogonal
from engram.errors import OptionError


@pytest.mark.parametrize("features", [2, 3, 5])
@pytest.mark.parametrize("steps", [1, 4])
def test_invariance_holds(steps: int, features: int) -> None:
    for seed in range(10):
        found = certify(InvarianceClaim(steps, features), seed=seed).found
        assert found["changed_scores"] == 0 < found["changed_codes"]


def test_the_cayley_transform_is_orthogonal_and_rational() -> None:
    """Of A = [[0, -2], [2, 0]]: (I - A)(I + A)^{-1} = [[-3, 4], [-4, -3]] / 5."""
    turn = orthogonal([[0, 0], [1, 0]])
    assert turn == fmpq_mat(2, 2, [-3, 4, -4, -3]) / 5


@pytest.mark.parametrize("features", [2, 3, 8])
def test_pair_order_holds(features: int) -> None:
    for seed in range(10):
        claim = PairOrderClaim(features)
        found = certify(claim, seed=seed).found
        assert [name for name, count in found.items() if count == 0] == [
            "symmetric_equal_norms",
            "symmetric_normalised",
            "asymmetric_normalised",
        ]


def test_what_does_not_hold() -> None:
    invariance, order = InvarianceClaim(4, 3), PairOrderClaim(4)
    found = dict(certify(invariance).found)
    wrong = {"changed_scores": 1, "changed_codes": 0, "is_orthogonal": False, "changed_asymmetric_scores": 0}
    for name, value in wrong.items():
        assert not invariance.holds(found | {name: value})
    found = dict(certify(order).found)
    for name, count in found.items():
        assert not order.holds(found | {name: 0 if count else 2})


def test_sizes() -> None:
    with pytest.raises(OptionError, match="features must be at least 2, got 1"):
        InvarianceClaim(4, 1)
    with pytest.raises(OptionError, match="features must be at least 2, got 1"):
        PairOrderClaim(1)
