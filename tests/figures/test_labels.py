"""Labels in the margin: moved as little as needed, and never upon each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Annotation
from scipy.optimize import minimize

from engram.figures import INK, MUTED, RED, SMALL, Label, label_right, new_figure, reference, spread
from readable import faults

places = st.lists(st.floats(-100, 100), min_size=1, max_size=8).map(sorted)


@given(places, st.data())
def test_spread_leaves_room(at: list[float], data: st.DataObject) -> None:
    heights = data.draw(st.lists(st.floats(1, 30), min_size=len(at), max_size=len(at)))
    found = spread(at, heights)
    for (low, below), (high, above) in pairwise(zip(found, heights, strict=True)):
        assert high - low >= (below + above) / 2 - 1e-9
    assert sum(found) == pytest.approx(sum(at), abs=1e-7)  # least squares leave the mean where it is


def test_what_has_room_stays() -> None:
    assert spread([0, 10, 25], [9, 9, 9]) == [0, 10, 25]


def test_spread_is_least_squares() -> None:
    """Against scipy's solver of the same problem."""
    at, heights = [0.0, 1.0, 2.0, 20.0, 21.0], [4.0, 6.0, 4.0, 8.0, 4.0]
    rooms = [
        {"type": "ineq", "fun": lambda x, k=k: x[k + 1] - x[k] - (heights[k] + heights[k + 1]) / 2} for k in range(4)
    ]
    best = minimize(lambda x: float(np.sum((x - at) ** 2)), np.arange(5) * 10.0, constraints=rooms).x
    np.testing.assert_allclose(spread(at, heights), best, atol=1e-5)


@pytest.mark.parametrize(("scale", "inverted"), [("linear", False), ("log", False), ("log", True)])
def test_labels_do_not_collide(scale: str, inverted: bool) -> None:
    values = [1.0, 1.01, 1.02, 40.0, 41.0, 100.0]
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        for value in values:
            reference(axes, value)
        axes.set_yscale(scale)
        if inverted:
            axes.invert_yaxis()
        label_right(axes, [Label(value, f"a label at {value}") for value in values])
    assert faults(figure) == []
    shown = [text for text in axes.texts if isinstance(text, Annotation)]
    heights = {text.get_text(): text.get_window_extent().y0 for text in shown}
    assert len(heights) == len(values)
    ordered = sorted(heights, key=heights.__getitem__, reverse=inverted)
    assert ordered == [f"a label at {value}" for value in values]  # the order of the data


def test_the_check_sees_a_collision() -> None:
    """Labels at their own heights, without being moved apart."""
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        axes.plot([0, 1], [0, 1])
        for value in (0.5, 0.51):
            axes.text(0.5, value, "label")
    assert "'label' overlaps 'label'" in faults(figure)
    assert "'label' stands upon a line" in faults(figure)


def test_a_level_that_a_log_axis_cannot_show_has_no_label() -> None:
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        axes.plot([1, 2], [1, 10])
        axes.set_yscale("log")
        label_right(axes, [Label(0.0, "nothing"), Label(5.0, "five")])
    assert [text.get_text() for text in axes.texts] == ["five"]


def labelled(labels: list[Label]) -> tuple[float, list[Annotation]]:
    """How many points a unit of y has in a panel from 0 to 1, and its labels, the lowest first."""
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        axes.set_ylim(0, 1)
        label_right(axes, labels)
    points = axes.get_window_extent().height * 72 / figure.dpi
    return points, [text for text in axes.texts if isinstance(text, Annotation)]


@pytest.mark.parametrize("words", [("one", "line"), ("one", "two\nlines"), ("three\nof\nthem", "two\nlines")])
def test_how_far_labels_move(words: tuple[str, str]) -> None:
    """Boxes of 1.35 font sizes per line just touch, moved by the same distance: down the lower, up the higher."""
    gap = SMALL * 1.35 * sum(1 + word.count("\n") for word in words) / 2
    points, shown = labelled([Label(0.51, words[1], RED), Label(0.5, words[0])])
    move = (gap - 0.01 * points) / 2
    assert [text.get_text() for text in shown] == [*words]
    assert [text.xyann for text in shown] == [pytest.approx((14, side * move)) for side in (-1, 1)]
    assert [text.xy for text in shown] == [(1, 0.5), (1, 0.51)]
    assert all(text.arrow_patch is not None for text in shown)
    assert [text.get_color() for text in shown] == [INK, RED]


def test_labels_with_room_have_no_line() -> None:
    points, _ = labelled([Label(0.2, "low")])
    _, shown = labelled([Label(0.2, "low"), Label(0.2 + 1.4 * SMALL / points, "high")])
    assert [text.xyann for text in shown] == [pytest.approx((5, 0), abs=1e-9)] * 2
    assert [text.arrow_patch for text in shown] == [None, None]


def test_a_reference_lies_below_the_data() -> None:
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        (curve,) = axes.plot([1, 2], [1, 10])
        reference(axes, 4.0)
    line = axes.lines[1]
    assert [*line.get_ydata()] == [4.0, 4.0]
    assert (line.get_linestyle(), line.get_color()) == (":", MUTED)
    assert line.get_zorder() < curve.get_zorder()
