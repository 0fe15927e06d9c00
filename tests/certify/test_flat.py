"""Depth of linear networks removed and added, in integers (Lizaire et al. 2026, A.3 and A.4)."""

import pytest

from engram.certify import DeepenClaim, FlatClaim, certify


@pytest.mark.parametrize("sizes", [(1, 3, 1), (2, 3, 1), (3, 4, 2), (4, 2, 5)])
def test_flat(sizes: tuple[int, ...]) -> None:
    found = certify(FlatClaim(*sizes))
    assert found.holds
    hidden, depth, _ = sizes
    assert [found.found[name] for name in ("units", "equal_steps", "deep_lag", "flat_lag")] == [
        hidden * depth, 7, depth * (hidden - 1), hidden * depth - 1,
    ]  # fmt: skip


def test_one_layer_is_flat() -> None:
    """L = 1: equal, not strict."""
    found = certify(FlatClaim(3, 1))
    assert found.holds
    assert found.found["deep_lag"] == found.found["flat_lag"] == 2


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (2, 3), (3, 2, 2)])
def test_deepen(sizes: tuple[int, ...]) -> None:
    """Also for n = 1, where lags tell nothing."""
    found = certify(DeepenClaim(*sizes))
    assert found.holds
    assert found.found["hankel_rank"] == sizes[0] * (sizes[1] + 1)


def test_a_wrong_layer_does_not_hold() -> None:
    claim = FlatClaim(2, 2)
    found = dict(claim.find("random", 101, 0))
    assert claim.holds(found)
    assert not claim.holds(found | {"equal_steps": 6})
    assert not DeepenClaim(2, 2).holds({"equal_steps": 7, "hankel_rank": 4, "most_without": 4})
