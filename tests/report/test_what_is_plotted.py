"""What stands in a figure is what was given: every line, mark, limit and title against numbers by hand."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from engram.figures import BLUE, MUTED, ORANGE, SERIES, SKY, new_figure
from engram.nn import Attention
from engram.report import (
    plot_atlas,
    plot_attention_weights,
    plot_rac,
    plot_rates,
    plot_recall,
    plot_sizes,
    plot_spectrum,
)
from engram.report._compare import compare_figure
from engram.report._compare_page import _number, _table
from engram.report._rac import END, START
from engram.report._task_strip import _coloured, _plot_image, _plot_numbers, _plot_text
from engram.runs import compare_runs
from engram.tasks import Copy, Task
from engram.theory import Sizing
from engram.train import RateTest
from made_runs import make_run

PATH = Path("figure.svg")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved, in place of their files."""
    found: list[Figure] = []
    monkeypatch.setattr("engram.figures._style.save_figure", lambda figure, path: found.append(figure))
    return found


def data(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]


def labelled(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    return {str(line.get_label()): data(line) for line in axes.lines}


def dotted(axes: Axes) -> list[float]:
    """The heights of the dotted lines across a panel."""
    return [data(line)[0][1] for line in axes.lines if line.get_linestyle() == ":"]


def test_a_spectrum(shown: list[Figure]) -> None:
    """[[0, -4], [1, 0]]: eigenvalues +-2i, singular values 4 and 1, and d^2 = |W|_F^2 - 4 - 4 = 9."""
    plot_spectrum(torch.tensor([[0.0, -4.0], [1.0, 0.0]]), PATH)
    plane, values, heat = shown[0].axes[:3]
    circle, points = (np.array(data(line)) for line in plane.lines)
    np.testing.assert_allclose(np.hypot(*circle.T), 1)
    np.testing.assert_allclose(points[points[:, 1].argsort()], [(0, -2), (0, 2)], atol=1e-12)
    assert plane.get_xlim() == plane.get_ylim() == pytest.approx((-2.16, 2.16))
    assert plane.get_title("left") == "Eigenvalues: largest 2"
    np.testing.assert_allclose(data(values.lines[0]), [(1, 4), (2, 1)])
    assert values.get_title("left") == "Singular values: 1 to 4"
    assert values.get_ylim() == pytest.approx((0, 4.48))
    np.testing.assert_allclose(heat.images[0].get_array(), [[2, 0], [3, 2]], atol=1e-12)  # type: ignore[arg-type]
    assert heat.images[0].get_clim() == pytest.approx((0, 3))
    assert heat.get_title("left") == "|Schur form|: off the diagonal 3"


def test_the_spectrum_of_a_rotation(shown: list[Figure]) -> None:
    """By 60 degrees, times a half: all inside of the circle, which is shown nevertheless."""
    turn = torch.tensor([[0.5, -(0.75**0.5)], [0.75**0.5, 0.5]], dtype=torch.float64) / 2
    plot_spectrum(turn, PATH)
    plane, values, heat = shown[0].axes[:3]
    assert plane.get_xlim() == pytest.approx((-1.15, 1.15))
    assert values.get_title("left") == "Singular values: all 0.5"
    assert values.get_ylim() == pytest.approx((0, 1.12))
    assert heat.images[0].get_clim() == (0, 1)
    assert heat.get_title("left") == "|Schur form|: normal matrix"


def test_sizes(shown: list[Figure]) -> None:
    rows = [Sizing(1, 45, 2295, 45), Sizing(2, 25, 2050, 50), Sizing(8, 10, 1630, 80, True), Sizing(40, 6, 2989, 240)]
    plot_sizes(rows, PATH, "a title")
    assert shown[0].get_suptitle() == "a title\nfewest parameters: 1,630, with 8 x 10 units (square)"
    columns = {
        "Units per layer": [45, 25, 10, 6],
        "Units of all layers": [45, 50, 80, 240],
        "Parameters": [2295, 2050, 1630, 2989],
    }
    assert [axes.get_title("left") for axes in shown[0].axes] == [*columns]
    for axes, column in zip(shown[0].axes, columns.values(), strict=True):
        assert data(axes.lines[0]) == list(zip([1, 2, 8, 40], column, strict=True))
        assert data(axes.lines[1]) == [(8, column[2])]
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


@pytest.mark.parametrize("exploded", [0.1, None])
def test_rates(shown: list[Figure], exploded: float | None) -> None:
    rates, losses, smoothed = (1e-4, 1e-3, 1e-2, 1e-1), (2.0, 1.5, 0.3, 9.0), (2.0, 1.7, 0.9, 4.0)
    plot_rates(RateTest(rates, losses, smoothed, 1e-2, exploded, 1e-3, 1e-4), PATH, "lstm on copy")
    (axes,) = shown[0].axes
    lines = labelled(axes)
    assert lines["loss of each step"] == list(zip(rates, losses, strict=True))
    assert lines["smoothed"] == list(zip(rates, smoothed, strict=True))
    assert {x for x, _ in lines["suggested rate, 0.001"]} == {1e-3}
    assert len(lines) == 3 + (exploded is not None)
    assert exploded is None or {x for x, _ in lines["exploded at 0.1"]} == {0.1}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert shown[0].get_suptitle().startswith("lstm on copy\nsuggested: 0.001, ")
    assert {text.get_text() for text in shown[0].legends[0].get_texts()} == {*lines}


def test_recall(shown: list[Figure]) -> None:
    """In per cent, over the updates from 1 on; every line is named at its end."""
    plot_recall({"one": [0.1, 0.5, 0.25], "two": [0.2, 1.0]}, 0.125, "a title", PATH)
    (axes,) = shown[0].axes
    assert data(axes.lines[0]) == [(1, 10), (2, 50), (3, 25)]
    assert data(axes.lines[1]) == [(1, 20), (2, 100)]
    assert dotted(axes) == [12.5]
    names = {text.get_text(): (text.xy[1], text.get_color()) for text in axes.texts}  # type: ignore[attr-defined]
    assert names == {"one": (25, SERIES[0]), "two": (100, SERIES[1]), "chance": (12.5, MUTED)}


def test_attention_weights(shown: list[Figure]) -> None:
    """Two heads averaged, of the row and the cell that are asked for; column sums; who is left at the end."""
    ages = torch.tensor([[[0, -1, -1], [1, 0, -1], [2, -1, 0]]]).repeat(2, 2, 1, 1)  # slot k holds step k, if any
    weights = torch.zeros(2, 2, 3, 2, 3)
    first, second = [[1.0, 0, 0], [0.75, 0.25, 0], [0.5, 0, 0.5]], [[1.0, 0, 0], [0.25, 0.75, 0], [0.25, 0, 0.75]]
    weights[1, 1] = torch.tensor([first, second]).transpose(0, 1)
    weights[0, 0, :, :, 0] = weights[0, 1, :, :, 0] = weights[1, 0, :, :, 0] = 1
    plot_attention_weights(Attention(weights, ages), PATH, row=1, cell=1)
    heat, total = shown[0].axes[:2]
    expected = [[1, math.nan, math.nan], [0.5, 0.5, math.nan], [0.375, math.nan, 0.625]]
    np.testing.assert_allclose(np.ma.filled(heat.images[0].get_array(), math.nan), expected)  # type: ignore[arg-type]
    assert heat.images[0].get_clim() == pytest.approx((0, np.quantile([1, 0.5, 0.5, 0.375, 0.625], 0.98)))
    received, left = (data(line) for line in total.lines)
    assert received == [(0, 1.875), (1, 0.5), (2, 0.625)]
    assert left == [(0, 1.875), (2, 0.625)]
    assert total.get_title("left") == "Received in all: 2 states left at the end"
    assert total.get_ylim() == pytest.approx((0, 1.1 * 1.875))


def test_lines_of_an_atlas(shown: list[Figure]) -> None:
    """Only K = M = R; the bound is the theorem where there is one; above by depth over length, below the reverse."""
    columns = ("M", "R", "T", "L", "K", "rank", "theorem", "conjecture", "upper")
    rows = [
        (2, 2, 6, 3, 2, 8, None, 7, 9), (2, 2, 4, 3, 2, 4, None, 3, 5), (2, 2, 6, 1, 2, 2, 2, 1, 3),
        (2, 2, 4, 1, 2, 2, 2, 1, 4), (2, 3, 4, 1, 2, 3, 3, 2, 3), (2, 2, 4, 3, 3, 6, None, 3, 6),
    ]  # fmt: skip
    plot_atlas({"rac": {"columns": columns, "rows": [list(row) for row in rows]}}, PATH)
    above, below = shown[0].axes
    upper, bound, rank = 0, 1, 2
    by_depth, by_length = (np.array([data(line) for line in axes.lines]).reshape(2, 3, 2, 2) for axes in (above, below))
    assert by_depth[0, rank].tolist() == [[4, 2], [6, 2]]
    assert by_depth[1, rank].tolist() == [[4, 4], [6, 8]]
    assert by_depth[0, bound].tolist() == [[4, 2], [6, 2]]  # the theorem
    assert by_depth[1, bound].tolist() == [[4, 3], [6, 7]]  # the conjecture
    assert by_depth[1, upper].tolist() == [[4, 5], [6, 9]]
    assert by_length[0, rank].tolist() == [[1, 2], [3, 4]]
    assert by_length[1, upper].tolist() == [[1, 3], [3, 9]]
    assert [text.get_text() for text in above.texts] == ["L = 1", "L = 3"]
    assert {text.get_text() for text in below.texts} == {"T = 4", "T = 6"}
    assert (above.get_title("left"), above.get_yscale()) == ("M = R = 2", "log")
    assert above.get_xticks().tolist() == [4, 6]


# comparisons


def test_lines_of_a_comparison(tmp_path: Path) -> None:
    """Seeds thin, their median thick, the best group last and so on top, a cross where a run diverged."""
    runs = [
        make_run(tmp_path / f"r{k}", validations=2, hidden=16 + k // 2, seed=k % 2, accuracy=0.9 - 0.2 * k)
        for k in range(4)
    ]
    runs.append(make_run(tmp_path / "bad", validations=2, hidden=99, status="failed", diverged=True, accuracy=0.1))
    with compare_figure(compare_runs(runs), None) as figure:
        loss, accuracy = figure.axes
        names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [name.partition(":")[0] for name in names] == ["1", "2", "3"]
    assert names[0].endswith(" (2 seeds)")
    assert "seeds" not in names[2]
    drawn = [(str(line.get_label()), data(line)) for line in accuracy.lines if line.get_linestyle() != ":"]
    assert [label for label, _ in drawn] == [names[2], "_end", "_seed", "_seed", names[1], "_seed", "_seed", names[0]]
    np.testing.assert_allclose(drawn[-1][1], [(20, 0.4), (40, 0.8)])  # the median of 0.9 and 0.7
    np.testing.assert_allclose(drawn[0][1], [(20, 0.05), (40, 0.1)])
    assert drawn[1][1] == [drawn[0][1][-1]]  # the cross
    widths = [line.get_linewidth() for line in accuracy.lines if line.get_linestyle() != ":"]
    assert [widths[0], *widths[2:5]] == [1.6, 0.7, 0.7, 2.2]
    assert loss.get_yscale() == "log"
    heights = {text.get_text(): text.xy[1] for text in accuracy.texts}  # type: ignore[attr-defined]
    assert heights == {"1": pytest.approx(0.8), "2": pytest.approx(0.4), "3": pytest.approx(0.1), "chance": 0.125}


def test_a_loss_of_zero_has_no_logarithm(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", validations=2)
    lines = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(lines.replace('"loss": 1.0', '"loss": 0.0'))
    with compare_figure(compare_runs([run]), None) as figure:
        assert (figure.axes[0].get_yscale(), figure.axes[0].get_ylabel()) == ("linear", "loss")
        assert figure.get_suptitle() == "1 run on copy"


@pytest.mark.parametrize(("count", "last"), [(7, "7: hidden 22"), (9, "7 to 9: others")])
def test_more_groups_than_colours(count: int, last: str, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"r{k}", hidden=16 + k, accuracy=0.9 - 0.05 * k) for k in range(count)]
    with compare_figure(compare_runs(runs), None) as figure:
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(names) == len(SERIES) + 1 == 7
        assert names[-1] == last
        colors = Counter(str(line.get_color()) for line in figure.axes[0].lines if line.get_linestyle() != ":")
    assert colors == {**dict.fromkeys(SERIES, 1), MUTED: count - 6}


def test_a_long_name_is_cut_to_48_letters() -> None:
    from engram.report._compare import _short

    assert _short("a" * 48) == "a" * 48
    assert _short("a" * 49) == "a" * 45 + "..."


def test_cells_of_a_page() -> None:
    """Zero is a number, nothing is nothing, and no cell is HTML."""
    assert [_number(value) for value in (None, 0, 0.0, 12, 1 / 3)] == ["", "0", "0", "12", "0.33333"]
    page = _table([["<i>&"], ["<b>&"]])
    assert "<tr><th>&lt;i&gt;&amp;</th></tr><tr><td>&lt;b&gt;&amp;</td></tr>" in page


# circuits


def test_units_of_a_circuit(shown: list[Figure]) -> None:
    """L = 2, T = 4: chains of 1, 2, 3 and 4 units of layer 1, so x^s has 5 - s copies; Start and End by colour."""
    assert plot_rac(2, 4, PATH) == 2
    (axes,) = shown[0].axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"$x^{{{s}}}$\n{5 - s}" for s in (1, 2, 3, 4)]
    units = Counter(
        (data(line)[0][0], to_hex(line.get_color()))
        for line in axes.lines
        if line.get_marker() == "o"  # type: ignore[arg-type]
    )
    assert units == {(1, START): 4, (2, START): 3, (3, END): 2, (4, END): 1}
    assert axes.get_title("left").splitlines()[1].startswith("2 copies of the joining unit = ")
    assert axes.get_ylim() == (5, -1.5)


def test_one_copy_is_no_copies(shown: list[Figure]) -> None:
    assert plot_rac(1, 2, PATH) == 1
    assert "1 copy of the joining unit = " in shown[0].axes[0].get_title("left")


# strips


@pytest.fixture
def panel() -> Any:
    with new_figure(None, height=3) as figure:
        yield figure.axes[0]


def test_two_colours_and_nothing() -> None:
    """The largest value whole, its half half as strong, below zero in another colour, zero not seen at all."""
    found = _coloured(torch.tensor([[4.0, 2.0, 0.0, -1.0]]))[0]
    assert found[:, 3].tolist() == [1, 0.5, 0, 0.25]
    assert [to_hex(color) for color in found[[0, 1, 3], :3]] == [SKY, SKY, ORANGE]
    assert not _coloured(torch.zeros(2, 2))[..., 3].any()


def test_an_image_in_pieces_is_put_together(panel: Any) -> None:
    """Four pieces of 2 x 2 pixels, a line between them; pixel by pixel without one."""
    whole = torch.arange(1.0, 17).view(4, 4)
    pieces = torch.stack([whole[y : y + 2, x : x + 2].flatten() for y in (0, 2) for x in (0, 2)])
    _plot_image(panel, pieces, 7)
    strength = np.array(panel.images[0].get_array())[..., 3]
    expected = np.zeros((6, 6))
    expected[np.ix_([0, 1, 3, 4], [0, 1, 3, 4])] = whole / 16
    np.testing.assert_allclose(strength, expected)
    assert panel.get_title("left") == "answer: 7"
    _plot_image(panel, whole.view(16, 1), 7)
    np.testing.assert_allclose(np.array(panel.images[1].get_array())[..., 3], whole / 16)


def test_what_is_not_asked_is_not_shown(panel: Any) -> None:
    """Targets of steps without an answer stay blank."""
    task, targets = Copy(2, 1), torch.tensor([3, 1, 2])
    _plot_numbers(panel, task, torch.ones(3, 2), targets, torch.tensor([False, True, True]))
    seen, asked = panel.images
    assert tuple(seen.get_extent()) == (-0.5, 2.5, 2, 0)
    shown = np.array(asked.get_array())[..., 3]  # (classes, steps)
    assert shown.sum(0).tolist() == [0, 1, 1]
    assert shown.argmax(0)[1:].tolist() == [1, 2]
    top = 2 + max(1, 0.1 * (2 + task.output_size))
    assert asked.get_extent() == pytest.approx((-0.5, 2.5, top + task.output_size, top))
    assert panel.get_ylim() == pytest.approx((top + task.output_size, 0))


class Letters:
    vocabulary, output_size = 3, 3

    def spelled(self, symbols: torch.Tensor) -> list[str]:
        return ["abc"[int(symbol)] for symbol in symbols]


def test_a_text_ends_with_its_last_answer(panel: Any) -> None:
    """Two lines, input above target; 48 letters at most."""
    task: Task = Letters()  # type: ignore[assignment]
    inputs, targets = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 2, 0, 1])
    _plot_text(panel, task, inputs, targets, torch.tensor([True, True, True, False]))
    found = {(text.get_position(), text.get_text(), text.get_color()) for text in panel.texts}
    assert {(place, word) for place, word, _ in found} == {
        ((0, 0), "a"), ((1, 0), "b"), ((2, 0), "c"), ((0, 1), "b"), ((1, 1), "c"), ((2, 1), "a")
    }  # fmt: skip
    assert {color for (_, line), _, color in found if line == 1} == {BLUE}
    panel.clear()
    _plot_text(panel, task, torch.zeros(60), torch.zeros(60), torch.ones(60))
    assert max(text.get_position()[0] for text in panel.texts) == 47
