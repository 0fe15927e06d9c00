"""The style and the files: what is written, in which colours, and what is refused."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.image import imread

from engram.errors import OptionError
from engram.figures import (
    DARK,
    INK,
    MARKERS,
    PAPER,
    SERIES,
    Dots,
    bars,
    check_figure,
    dot_styles,
    dots,
    heat_colors,
    new_figure,
    plain_log,
    svg_text,
)
from readable import faults, strange_colors


def some_figure(path: Path | None) -> None:
    with new_figure(path, 1, 2, height=3, title="a title") as figure:
        left, right = figure.axes
        left.plot([1, 2, 3], [3, 1, 2])
        left.set(xlabel="step", ylabel="loss")
        bars(right, {"one": 0.4, "the other": 1.7}, "time / base")


def test_svg_in_our_colours(tmp_path: Path) -> None:
    some_figure(tmp_path / "new" / "folders" / "a.svg")
    content = (tmp_path / "new" / "folders" / "a.svg").read_text()
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    assert strange_colors(content) == set()
    assert f"fill: {PAPER}" in content  # a background of its own
    assert f'[style*="fill: {PAPER}"]{{fill:{DARK[PAPER]}!important}}' in content


def test_png(tmp_path: Path) -> None:
    some_figure(tmp_path / "a.png")
    picture = imread(tmp_path / "a.png")
    assert picture.shape[:2] == (450, 1350)  # 9 x 3 inches
    np.testing.assert_array_equal(picture[0, 0], (1, 1, 1, 1))


def test_the_same_bytes(tmp_path: Path) -> None:
    for ending in ("svg", "png"):
        for name in ("a", "b"):
            some_figure(tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_figures_of_one_page_do_not_share_names() -> None:
    with new_figure(None, height=3) as figure:
        figure.axes[0].plot([1, 2])
    assert svg_text(figure, "one") != svg_text(figure, "two")
    assert svg_text(figure, "one") == svg_text(figure, "one")


def test_another_ending_is_refused_before_anything_is_plotted(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"a figure must end in \.svg or \.png, got .*a\.pdf"):
        some_figure(tmp_path / "a.pdf")
    with pytest.raises(OptionError, match="--figure must end in"):
        check_figure(Path("a.jpeg"), "--figure")


def test_nothing_is_written_where_plotting_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_figure(tmp_path / "a.svg", height=3):
        1 / 0  # noqa: B018
    assert not any(tmp_path.iterdir())


def test_the_style_ends_with_the_figure() -> None:
    before = rcParams["text.color"]
    with new_figure(None, height=3):
        assert rcParams["text.color"] == INK
    assert rcParams["text.color"] == before


def test_styles_are_all_different() -> None:
    names = [f"series {k}" for k in range(2 * len(SERIES))]
    assert len(set(dot_styles(names).values())) == len(names)
    assert SERIES[0] not in {look.color for look in dot_styles(names, skip=SERIES[:1]).values()}


def test_styles_repeat_hollow() -> None:
    """In the order of the palette, each colour with its own shape; a second round is hollow, a third filled again."""
    count = len(SERIES)
    found = list(dot_styles([str(k) for k in range(3 * count)]).values())
    assert [(look.color, look.marker) for look in found] == 3 * list(zip(SERIES, MARKERS, strict=True))
    assert [look.filled for look in found] == [True] * count + [False] * count + [True] * count
    fewer = list(dot_styles([str(k) for k in range(count)], skip=SERIES[1:2]).values())
    assert (fewer[1].color, fewer[1].marker) == (SERIES[2], MARKERS[2])
    assert [look.filled for look in fewer] == [True] * (count - 1) + [False]


def test_bars_by_hand() -> None:
    """From 0 to a tenth beyond the longest, or to 1.21 where all are below 1.1; each with its number; a line at 1."""
    for values, most in (({"one": 0.4, "the other": 1.7}, 1.87), ({"one": 0.4}, 1.21), ({}, 1.21)):
        with new_figure(None, height=3) as figure:
            (axes,) = figure.axes
            bars(axes, values, "time / base")
        assert axes.get_xlim() == pytest.approx((0, most))
        assert [patch.get_width() for patch in axes.patches] == [*values.values()]  # type: ignore[attr-defined]
        assert [text.get_text() for text in axes.texts] == [f"{value:.2f}" for value in values.values()]
        assert [tick.get_text() for tick in axes.get_yticklabels()] == [*values]
        assert [*axes.lines[0].get_xdata()] == [1, 1]
        assert axes.get_xlabel() == "time / base"


def test_hollow_dots_and_thin_lines() -> None:
    """A row has a thin line from its least dot to its largest; a row without dots has none."""
    with new_figure(None, height=2.5) as figure:
        (axes,) = figure.axes
        both = {"a": Dots(SERIES[0], "o"), "b": Dots(SERIES[1], "s", filled=False)}
        dots(axes, {"first": {"a": 3.0, "b": 0.5, "c": 9.0}, "none": {"c": 1.0}}, both)
    thin = [list(zip(*line.get_data(), strict=True)) for line in axes.lines if line.get_linestyle() == "-"]
    assert thin == [[(0.5, 0), (3.0, 0)]]
    faces = {line.get_label(): line.get_markerfacecolor() for line in axes.lines if line.get_linestyle() == "None"}
    assert faces == {"a": SERIES[0], "b": PAPER}


def test_panels_size_and_title() -> None:
    with new_figure(None, 2, 3, height=4, width=6, title="a title", sharex=True) as figure:
        panels = figure.axes
    assert panels[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)  # type: ignore[union-attr]
    assert tuple(figure.get_size_inches()) == (6, 4)
    assert figure.get_suptitle() == "a title"
    assert panels[0].get_shared_x_axes().joined(panels[0], panels[5])


def test_dots_are_where_the_table_says() -> None:
    table = {"first": {"a": 0.5, "b": 2.0}, "second": {"a": 30.0}}
    with new_figure(None, height=2.5) as figure:
        (axes,) = figure.axes
        dots(axes, table, dot_styles(["a", "b"]))
        figure.legend(loc="outside lower left")
    points = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert points["a"] == [(0.5, 0), (30.0, 1)]
    assert points["b"] == [(2.0, 0)]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["first", "second"]
    assert axes.yaxis_inverted()  # the first at the top
    assert faults(figure) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.2, 40), ["0.2", "0.5", "1", "2", "5", "10", "20"]),
        ((1e-3, 1e6), ["0.01", "100", "10,000"]),
        ((300, 5000), ["500", "1,000", "2,000"]),
    ],
)
def test_numbers_of_a_log_axis(values: tuple[float, float], said: list[str]) -> None:
    with new_figure(None, height=3) as figure:
        (axes,) = figure.axes
        axes.plot([1, 2], values)
        axes.set_yscale("log")
        plain_log(axes.yaxis)
        figure.draw_without_rendering()
    assert {*said} <= {tick.get_text() for tick in axes.get_yticklabels()}


def test_heat_starts_at_nothing() -> None:
    """So that zero is the background, light or dark."""
    assert heat_colors()(0.0)[3] == 0
    assert heat_colors()(1.0)[3] == 1
