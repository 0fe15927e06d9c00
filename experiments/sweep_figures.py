"""The figures of the sweeps in experiments/sweeps, from their tables in docs/results.

    engram sweep experiments/sweeps/NAME.toml --out sweeps/NAME
    engram sweep export experiments/sweeps/NAME.toml --out sweeps/NAME --format json -o docs/results/NAME.json
    python experiments/plot_results.py docs/results NAME

(each with --allow experiments/as_printed.py for those of Ziv). A table with runs that are missing has no figure.
"""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.lines import Line2D

from engram.errors import RunError
from engram.figures import BLUE, INK, MARKERS, ORANGE, SERIES, new_figure, reference
from engram.theory import least_hidden

Row = dict[str, Any]
DEPTHS = (1, 2, 4, 8)
COLORS = dict(zip(DEPTHS, SERIES, strict=False))
"""Of each depth, in all panels."""
SHAPES = dict(zip(DEPTHS, MARKERS, strict=False))
LADDERS = {  # name: its title, what grows, how it is called, its unit for each step of it
    "ziv-copying-delay": ("Copying 30 of 32 symbols", "delay", "longest delay solved (steps)", 1),
    "ziv-copying-bits": ("Copying m of 32 symbols at once", "length", "most bits copied (5m)", 5),
    "ziv-start-end": ("Start-end similarity of 30 of 32 symbols", "length", "longest sequence solved (steps)", 1),
}
WIDTHS = {"depth-lag-copy": "Lag copy, linear", "depth-sinus": "Sinus, tanh in depth",
          "depth-copy-sinus": "Copy-sinus, tanh in depth"}  # fmt: skip
KINDS = {"depth-rnn": "tanh in depth", "rnn": "tanh in the recurrence", "2rnn": "linear 2RNN"}


def table(results: Path, name: str) -> list[Row]:
    """The rows of a sweep that has come to its end."""
    rows: list[Row] = json.loads((results / f"{name}.json").read_text())
    missing = sum(row["status"] == "missing" for row in rows)
    if missing:
        raise RunError(f"{name} is not finished, {missing} of {len(rows)} runs are missing: a part is no result")
    return rows


def ladders(rows: list[Row], over: str) -> dict[tuple[int, int], list[list[Row]]]:
    """By budget and depth: of each seed the runs along its ladder."""
    found: dict[tuple[int, int], dict[int, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row[over]):
        if row["status"] != "not needed":
            found.setdefault((row["budget"], row["layers"]), {}).setdefault(row["seed"], []).append(row)
    return {key: [*seeds.values()] for key, seeds in sorted(found.items())}


def plot_ladder(name: str, results: Path) -> None:
    """The longest value solved against depth, a panel per budget: each seed a dot, a line at the median."""
    (title, over, label, unit), rows = LADDERS[name], table(results, name)
    values = sorted({row[over] for row in rows})
    places = {None: 0} | {value: place for place, value in enumerate(values, 1)}
    walks = ladders(rows, over)
    budgets = sorted({budget for budget, _ in walks})
    depths = sorted({depth for _, depth in walks})
    with new_figure(
        results / f"{name}.svg",
        1,
        len(budgets),
        height=2.6 + 0.17 * len(values),
        width=4.5 + 2.25 * (len(budgets) - 1),
        title=title,
    ) as figure:
        for axes, budget in zip(figure.axes, budgets, strict=True):
            for depth in depths:
                solved = [[row[over] for row in walk if row["solved"]] for walk in walks[budget, depth]]
                found = [places[max(own, default=None)] for own in solved]
                beside = [depth + 0.14 * (k - (len(found) - 1) / 2) for k in range(len(found))]
                axes.plot([depth - 0.3, depth + 0.3], [median(found)] * 2, color=BLUE, linewidth=3, label="median")
                axes.plot(beside, found, "o", color=ORANGE, markersize=7, label="one seed")
            axes.set(title=f"{budget:,} parameters", xlabel="layers", ylabel=label, xticks=depths)
            axes.set(xlim=(depths[0] - 0.5, depths[-1] + 0.5), ylim=(-0.4, len(values) + 0.4))
            shown = [f"{unit * value:,}" for value in values]
            axes.set_yticks(range(len(values) + 1), ["none", *shown[:-1], f"last tried: {shown[-1]}"])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles[:2], labels[:2], loc="outside lower left", ncols=2)


def plot_widths(name: str, results: Path) -> None:
    """Test error against width, units and parameters, as in the paper: each seed a dot, lines through the medians."""
    rows, title = table(results, name), f"{WIDTHS[name]}: each seed a dot, lines through the medians"
    with new_figure(results / f"{name}.svg", 1, 3, height=3.8, title=title, sharey=True) as figure:
        for axes, (label, x) in zip(figure.axes, AXES.items(), strict=True):
            for depth in sorted({row["layers"] for row in rows}):
                _line(axes, [row for row in rows if row["layers"] == depth], x, COLORS[depth], SHAPES[depth])
            axes.set(xlabel=label)
            axes.locator_params(axis="x", nbins=5)  # numbers of parameters are long
            axes.xaxis.set_major_formatter("{x:,.0f}")
            if name == "depth-lag-copy":
                axes.set(yscale="log")
            else:
                reference(axes, 0.5)
                axes.set(ylim=(0, 0.55))
        if name == "depth-lag-copy":
            for depth in sorted({row["layers"] for row in rows}):
                least = least_hidden(8, depth, 5)
                figure.axes[0].axvline(least, color=COLORS[depth], linestyle=":", linewidth=1.2)
            figure.axes[0].set(title="dotted: the width that suffices")
        else:
            figure.axes[0].set(title="dotted: a constant answer")
        figure.axes[0].set(ylabel="test MSE" + (" (log scale)" if name == "depth-lag-copy" else ""))
        _legend(figure, rows)


def plot_parity(name: str, results: Path) -> None:
    """Tanh in depth and tanh in the recurrence by the number of layers, and all of them by parameters."""
    rows, title = table(results, name), "Parity: each seed a dot, lines through the medians; dotted: a constant answer"
    with new_figure(results / f"{name}.svg", 1, 3, height=3.8, title=title, sharey=True) as figure:
        *sides, right = figure.axes
        for axes, kind in zip(sides, ("depth-rnn", "rnn"), strict=True):
            found = [row for row in rows if row["model"] == kind]
            widths = sorted({row["hidden"] for row in found})
            for hidden, style in zip(widths, ("-", "--", ":"), strict=False):
                _line(axes, [row for row in found if row["hidden"] == hidden], "layers", INK, " ", style)
            for depth in DEPTHS:
                own = [row for row in found if row["layers"] == depth]
                _line(axes, own, "layers", COLORS[depth], SHAPES[depth], " ")
                _line(right, own, "parameters", COLORS[depth], SHAPES[depth], "-" if kind == "depth-rnn" else "--")
            shown = ", ".join(f"n = {hidden}" + " (dashed)" * (k == 1) for k, hidden in enumerate(widths))
            axes.set(title=f"{KINDS[kind]},\n{shown}", xlabel="layers", xscale="log")
            axes.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
            axes.set_xticks([], minor=True)
        _line(right, [row for row in rows if row["model"] == "2rnn"], "parameters", INK, "*")
        right.set(title="dashed: tanh in the recurrence,\nstars: linear 2RNN, n = 5", xscale="log")
        right.set(xlabel="parameters (log scale)")
        right.set_xticks([200, 2000, 20000], ["200", "2,000", "20,000"])
        right.set_xticks([], minor=True)
        for axes in figure.axes:
            reference(axes, 1.0)
            axes.set(yscale="log")
        sides[0].set(ylabel="test MSE (log scale)")
        _legend(figure, rows)


def units(row: Row) -> int:
    return int(row["hidden"] * row["layers"])


AXES: dict[str, str | Callable[[Row], int]] = {
    "hidden units n per layer": "hidden", "hidden units nL in all": units, "parameters": "parameters",
}  # fmt: skip


def _line(axes: Any, rows: list[Row], x: str | Callable[[Row], int], color: str, shape: str, style: str = "-") -> None:
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["status"] == "done":
            found.setdefault(x(row) if callable(x) else row[x], []).append(row["test_mse"])
    for place, values in found.items():
        axes.plot([place] * len(values), values, shape, color=color, markersize=4)
    ordered = sorted(found)
    axes.plot(ordered, [median(found[place]) for place in ordered], style, color=color)


def _legend(figure: Any, rows: list[Row]) -> None:
    words = {depth: f"L = {depth} layer{'s' if depth > 1 else ''}" for depth in DEPTHS}
    there = sorted({row["layers"] for row in rows})
    lines = [Line2D([], [], color=COLORS[depth], marker=SHAPES[depth], label=words[depth]) for depth in there]
    figure.legend(handles=lines, loc="outside lower left", ncols=len(lines))


PLOTS: dict[str, Callable[[str, Path], None]] = {
    **dict.fromkeys(LADDERS, plot_ladder),
    **dict.fromkeys(WIDTHS, plot_widths),
    "depth-parity": plot_parity,
}
"""What plots the figure of each sweep."""
