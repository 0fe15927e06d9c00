"""Depth, width and parameters of linear RNNs that copy with a lag (``engram size``)."""

import pytest

from engram.errors import OptionError
from engram.nn import LinearRNN
from engram.theory import least_hidden, rac_parameters, rnn_parameters, sizings


@pytest.mark.parametrize(("hidden", "depth", "inputs"), [(3, 1, 1), (4, 3, 2), (10, 8, 5)])
def test_the_count_is_that_of_a_layer(hidden: int, depth: int, inputs: int) -> None:
    layer = LinearRNN(inputs, hidden, depth)
    assert rnn_parameters(hidden, depth, inputs) == sum(p.numel() for p in layer.parameters())


def test_sizes_of_the_task() -> None:
    """p = 8, d = 5, the lag copy task of the paper: widths, units and parameters."""
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


def test_parameters_of_a_circuit() -> None:
    """By hand: W_I 4x5, W_H and W_I of two layers more, read-out 2x4."""
    assert rac_parameters(5, 4, 3, 2) == 4 * 5 + 3 * 16 + 2 * 16 + 2 * 4


def test_a_table_has_an_end() -> None:
    """A lag of p has some 2 sqrt p sizes: at most 10,000 are listed, or as many layers as are asked for."""
    assert 9_000 < len(sizings(25_000_000)) <= 10_000
    assert len(sizings(10**12, max_depth=10_000)) == 10_000
    for more in ({"lag": 25_010_001}, {"lag": 10**12, "max_depth": 10_001}):
        with pytest.raises(OptionError, match="has more than 10,000 sizes: set max_depth to at most 10,000"):
            sizings(**more)


def test_of_equal_sizes_the_shallowest_is_the_best() -> None:
    """(2L - 1) n^2 + (L + 1) n at lag 5: 48 for 1 x 6 and for 5 x 2; at lag 8: 78 for 4 x 3 and for 8 x 2."""
    for lag, equal in ((5, [(1, 6), (5, 2)]), (8, [(4, 3), (8, 2)])):
        rows = sizings(lag)
        least = min(row.parameters for row in rows)
        assert [(row.depth, row.hidden) for row in rows if row.parameters == least] == equal
        assert [(row.depth, row.hidden) for row in rows if row.fewest] == equal[:1]
