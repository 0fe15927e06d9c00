"""Parameters against depth (Lizaire et al. 2026, Theorem 2 and A.5)."""

from fractions import Fraction
from math import sqrt

import pytest

from engram.certify import ParamsClaim, certify
from engram.certify._params import critical_hidden, margin
from engram.theory import least_hidden, rnn_parameters


def test_the_exceptions() -> None:
    """All n < 60, L < 40: one at n = 3, seven at n = 2, none from n = 4 on."""
    wrong = [
        (hidden, depth, less)
        for hidden in range(2, 60)
        for depth in range(2, 40)
        for less in range(1, depth)
        if rnn_parameters(least_hidden(depth * (hidden - 1), less), less) <= rnn_parameters(hidden, depth)
    ]
    assert wrong == [(2, *pair) for pair in ((2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 3), (8, 4))] + [(3, 2, 1)]


def test_more_inputs() -> None:
    """The same function of d inputs: violations only at n = 2 for d = 2, 3, and none for d = 5, 10."""
    for inputs, hiddens in ((2, {2}), (3, {2}), (5, set()), (10, set())):
        wrong = {
            hidden
            for hidden in range(2, 60)
            for depth in range(2, 30)
            for less in range(1, depth)
            if rnn_parameters(least_hidden(depth * (hidden - 1), less), less, inputs)
            <= rnn_parameters(hidden, depth, inputs)
        }
        assert wrong == hiddens


def test_the_quadratic() -> None:
    """The difference at n' = L (n - 1) / l + 1 is (L - l) / l^2 times the margin, in rationals."""
    for depth in range(2, 8):
        for less in range(1, depth):
            for hidden in range(2, 9):
                wide = Fraction(depth * (hidden - 1), less) + 1
                shallow = (2 * less - 1) * wide**2 + (less + 1) * wide
                assert shallow - rnn_parameters(hidden, depth) == Fraction(depth - less, less**2) * margin(
                    hidden, depth, less
                )


def test_the_critical_width() -> None:
    """The root (3 + sqrt 13) / 2 = 3.3028 at (2, 1) is the largest for L < 60."""
    roots = {}
    for depth in range(2, 60):
        for less in range(1, depth):
            a = 2 * depth * less - depth - less
            roots[depth, less] = 1 + less * (1 + sqrt(12 * a + 1)) / (2 * a)
        assert critical_hidden(depth) == max(2, int(max(roots[depth, less] for less in range(1, depth))) + 1)
    assert max(roots, key=roots.__getitem__) == (2, 1)
    assert roots[2, 1] == pytest.approx((3 + sqrt(13)) / 2)
    measured = [3.3028, 2.4599, 2.3516, 2.2532]
    assert [roots[less + 1, less] for less in (1, 2, 3, 10)] == pytest.approx(measured, abs=5e-5)


@pytest.mark.parametrize(("hidden", "depth", "holds"), [(4, 2, True), (5, 7, True), (3, 2, False), (3, 3, True)])
def test_the_claim(hidden: int, depth: int, holds: bool) -> None:
    assert certify(ParamsClaim(hidden, depth)).holds is holds


def test_the_claim_in_numbers() -> None:
    content = certify(ParamsClaim(3, 2)).to_dict()
    assert (content["lag"], content["parameters"], content["shallower"]) == (4, 36, [[1, 5, 35]])
    assert (content["margins"], content["critical_hidden"]) == ([-1], 4)
    assert "as few as 35 (1 of 5 units)" in content["statement"]
    assert certify(ParamsClaim(4, 1)).holds  # vacuous


def test_one_layer_has_nothing_shallower() -> None:
    content = certify(ParamsClaim(hidden=4, depth=1)).to_dict()
    assert content["statement"] == (
        "1 layer of 4 units can copy with a lag of 3 and have 24 parameters; there is nothing shallower."
    )
    assert (content["holds"], content["critical_hidden"], content["shallower"], content["margins"]) == (
        True,
        None,
        [],
        [],
    )
    assert certify(ParamsClaim(hidden=4, depth=2)).to_dict()["critical_hidden"] == 4
