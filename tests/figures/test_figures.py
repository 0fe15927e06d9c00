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
    PAPER,
    SERIES,
    bars,
    check_figure,
    dots,
    heat_colors,
    looks,
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
    some_figure(tmp_path / "new" / "a.svg")
    content = (tmp_path / "new" / "a.svg").read_text()
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


def test_looks_are_all_different() -> None:
    names = [f"series {k}" for k in range(2 * len(SERIES))]
    assert len(set(looks(names).values())) == len(names)
    assert SERIES[0] not in {look.color for look in looks(names, skip=SERIES[:1]).values()}


def test_dots_are_where_the_table_says() -> None:
    table = {"first": {"a": 0.5, "b": 2.0}, "second": {"a": 30.0}}
    with new_figure(None, height=2.5) as figure:
        (axes,) = figure.axes
        dots(axes, table, looks(["a", "b"]))
        figure.legend(loc="outside lower left")
    points = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert points["a"] == [(0.5, 0), (30.0, 1)]
    assert points["b"] == [(2.0, 0)]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["first", "second"]
    assert axes.yaxis_inverted()  # the first at the top
    assert faults(figure) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [((0.2, 40), ["0.2", "0.5", "1", "2", "5", "10", "20"]), ((1e-3, 1e6), ["0.01", "100", "10,000"])],
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
