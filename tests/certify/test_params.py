"""Parameters against depth (spec/depth.md 4.6), and engram size."""

from fractions import Fraction
from math import sqrt

import pytest

from engram.certify import Params, certify, least_hidden, rnn_parameters, sizings
from engram.certify._params import critical_hidden, margin
from engram.errors import OptionError
from engram.nn import LinearRNN


@pytest.mark.parametrize(("hidden", "depth", "inputs"), [(3, 1, 1), (4, 3, 2), (10, 8, 5)])
def test_the_count_is_that_of_a_layer(hidden: int, depth: int, inputs: int) -> None:
    layer = LinearRNN(inputs, hidden, depth)
    assert rnn_parameters(hidden, depth, inputs) == sum(p.numel() for p in layer.parameters())


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
    assert certify(Params(hidden, depth)).holds is holds


def test_the_claim_in_numbers() -> None:
    content = certify(Params(3, 2)).to_dict()
    assert (content["lag"], content["parameters"], content["shallower"]) == (4, 36, [[1, 5, 35]])
    assert (content["margins"], content["critical_hidden"]) == ([-1], 4)
    assert "as few as 35 (1 of 5 units)" in content["statement"]
    assert certify(Params(4, 1)).holds  # vacuous


def test_sizes_of_the_task() -> None:
    """p = 8, d = 5: widths, units and parameters of spec 4.2."""
    rows = {row.depth: row for row in sizings(8, 5)}
    four = [rows[depth] for depth in (1, 2, 4, 8)]
    assert [row.hidden for row in four] == [45, 25, 15, 10]
    assert [row.units for row in four] == [45, 50, 60, 80]
    assert [row.parameters for row in four] == [2295, 2050, 1710, 1630]


@pytest.mark.parametrize(("lag", "channels"), [(1, 1), (7, 1), (200, 1), (8, 5), (3, 4)])
def test_nothing_better_is_left_out(lag: int, channels: int) -> None:
    """Against every depth: the fewest parameters, and at each width the fewest layers."""
    every = [(least_hidden(lag, depth, channels), depth) for depth in range(1, 2 * lag * channels + 1)]
    rows = sizings(lag, channels)
    assert {row.hidden for row in rows} == {hidden for hidden, _ in every}
    for row in rows:
        assert row.depth == min(depth for hidden, depth in every if hidden == row.hidden)
    least = min(rnn_parameters(hidden, depth, channels) for hidden, depth in every)
    assert [row.parameters for row in rows if row.fewest] == [least]


def test_at_most_so_deep() -> None:
    assert [row.depth for row in sizings(200, max_depth=4)] == [1, 2, 3, 4]
    with pytest.raises(OptionError, match="lag must be at least 1"):
        sizings(0)
