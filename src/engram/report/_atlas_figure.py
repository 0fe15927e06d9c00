"""An atlas of ranks as a figure."""

from math import ceil
from pathlib import Path
from typing import Any

from engram.figures import SERIES, Label, label_right, new_figure
from engram.report._atlas import rows_of

MOST_LENGTHS, MOST_DEPTHS = len(SERIES), 4
"""Lines of a panel."""


def plot_atlas(found: dict[str, Any], path: Path) -> None:
    """Plot the rank against length (above, one line per depth) and depth (below, one line per length), for M = R = K.

    Points: rank found; dashed: the lower bound (theorem or conjecture); thin: the upper bound. SVG or PNG.
    """
    square = [row for row in rows_of(found["rac"]) if row["K"] == row["M"] == row["R"]]
    modes = sorted({row["M"] for row in square})[:3]
    title = "Rank found (points), lower bound of theorem or conjecture (dashed), upper bound (thin)"
    with new_figure(path, 2, max(1, len(modes)), height=6.4, title=title, sharey="col", squeeze=False) as figure:
        for place, axes in enumerate(figure.axes):
            axes.set(ylabel="Start-End rank" if place % max(1, len(modes)) == 0 else "")
        for column, m in enumerate(modes):
            above, below = figure.axes[column], figure.axes[column + len(modes)]
            above.set_yscale("log", base=m)
            rows = [row for row in square if row["M"] == m]
            above.set(title=f"M = R = {m}", xlabel="length T")
            below.set(xlabel="depth L")
            ends = [(above, _panel(above, rows, "T", "L")), (below, _panel(below, rows, "L", "T"))]
            for axes, labels in ends:
                axes.yaxis.set_tick_params(labelleft=True)
                label_right(axes, labels)


def _panel(axes: Any, rows: list[dict[str, Any]], along: str, apart: str) -> list[Label]:
    """One colour for each value of ``apart``; returns the labels of the line ends."""
    values = sorted({row[apart] for row in rows})
    # Of the lengths every second or third is shown; depths beyond the fourth lie on the fourth.
    values = values[:: ceil(len(values) / MOST_LENGTHS)] if apart == "T" else values[:MOST_DEPTHS]
    labels = []
    for number, (color, value) in enumerate(zip(SERIES, values, strict=False)):
        line = sorted((row for row in rows if row[apart] == value), key=lambda row: row[along])
        x = [row[along] for row in line]
        bound = [row["conjecture"] if row["theorem"] is None else row["theorem"] for row in line]
        axes.plot(x, [row["upper"] for row in line], color=color, linewidth=0.7)
        axes.plot(x, bound, color=color, linewidth=1.1, linestyle="--")
        size = 3.2 + 1.3 * (len(values) - 1 - number)  # points at one place stand inside each other
        ranks = [row["rank"] for row in line]
        axes.plot(x, ranks, color=color, linestyle="", marker="o", markersize=size)
        labels.append(Label(ranks[-1], f"{apart} = {value}", color))
    axes.set_xticks(sorted({row[along] for row in rows}))
    return labels
