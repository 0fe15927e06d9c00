"""A change of the inputs that a linear recurrence does not see (Lizaire et al. 2026, Lemma 4)."""

from math import gcd

import numpy as np
import pytest

from engram.certify import StateTrackingClaim, certify
from engram.certify._state_tracking import kernel_vector
from engram.errors import OptionError
from engram.exact import integers


@pytest.mark.parametrize("sizes", [(5, 2, 2), (1, 1), (6, 2, 3), (20, 3), (7, 8)])
def test_the_claim(sizes: tuple[int, ...]) -> None:
    found = certify(StateTrackingClaim(*sizes))
    assert found.holds
    assert found.found["steps"] == sizes[0] // sizes[1] + 1


def test_the_smallest_case_of_the_specification() -> None:
    """n = d = 2, 5 units: t = 3, and the change is in the kernel by the definition."""
    content = certify(StateTrackingClaim(5)).to_dict()
    assert content["steps"] == 3
    change = np.array([[int(number) for number in row] for row in content["change"]], dtype=object)
    into, back = integers(0, 1, 5, 2), integers(0, 2, 5, 5)
    assert not (back @ back @ into @ change[0] + back @ into @ change[1] + into @ change[2]).any()


def test_the_kernel_vector_is_whole_and_the_same_for_ever() -> None:
    """Without a common divisor, so that a certificate of today can be checked in years."""
    vector = kernel_vector(integers(1, 0, 4, 3), integers(1, 1, 4, 4), 2)
    assert gcd(*vector) == 1
    assert [int(number) for number in vector] == [-261568, 15895, -116007, 444080, 1250208, 0]


def test_what_does_not_hold() -> None:
    claim = StateTrackingClaim(5)
    found = dict(claim.find("random", 101, 0))
    assert not claim.holds(found | {"target_change": [0, 0]})
    assert not claim.holds(found | {"state_differs": True})
    assert not claim.holds(found | {"change": [["0", "0"]] * 3})
    with pytest.raises(OptionError, match=r"units must be at least as many as inputs, 3 \(Lemma 4\); got 2"):
        StateTrackingClaim(5, 3, 2)
    with pytest.raises(OptionError, match="choose smaller sizes"):
        certify(StateTrackingClaim(5000))
