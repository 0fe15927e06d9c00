"""An atlas of ranks as a page and as a figure."""

from math import ceil
from pathlib import Path
from typing import Any

from engram.figures import SERIES, Label, label_right, new_figure

MOST_LENGTHS, MOST_DEPTHS = len(SERIES), 4
"""Lines of a panel."""
SHOWN = 150
"""Rows of a list of failures on the page; the JSON file has all."""


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def atlas_summary(found: dict[str, Any]) -> str:
    """What was found, in a few lines."""
    told = found["conjecture"]
    lines = [
        f"{found['matrices']:,} matrices, modulo {found['prime']}, seed {found['seed']}.",
        f"Conjecture 1 is certified at {told['certified']:,} of {told['sizes']:,} sizes (M, R, T, L), "
        f"{told['certified_beyond_the_theorems']:,} of them deeper than the theorems go (L > 2)"
        + (
            f"; at {len(told['out_of_reach']):,} no grid within the limit could reach it"
            if told["out_of_reach"]
            else ""
        )
        + (f"; at {len(told['open']):,} it is open" if told["open"] else "")
        + ".",
    ]
    for name, count in found["claims"].items():
        lines.append(
            f"{name}: holds on {count['hold']:,} of {count['asked']:,} grids"
            + (f", fails on {count['fail']:,} (the upper bound is below it)" if count["fail"] else "")
            + (f", open on {count['open']:,}" if count["open"] else "")
        )
    lines += [f"{name}: {len(table['rows']):,} sizes" for name, table in found["fails"].items()]
    return "\n".join(lines)


def atlas_page(found: dict[str, Any]) -> str:
    """Markdown: the summary, where what is printed fails, and all ranks with as many templates as modes."""
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in found["range"].items())
    parts = [
        "# Atlas of ranks",
        "",
        f"`engram certify atlas {words}`",
        "",
        *(f"* {line}" for line in atlas_summary(found).split("\n")),
        "",
    ]
    parts += ["![Rank against length and depth](atlas.svg)", "", "## Where what is printed fails", ""]
    for name, table in found["fails"].items():
        rows, more = table["rows"][:SHOWN], len(table["rows"]) - SHOWN
        parts += [f"**{name}**: {len(table['rows']):,} sizes", "", *_table(table["columns"], rows), ""]
        parts += [f"... and {more:,} more in `atlas.json`.", ""] if more > 0 else []
    for name, words in (("out_of_reach", "No grid within the limit could reach Conjecture 1"), ("open", "Open")):
        sizes = ", ".join(f"({', '.join(map(str, size))})" for size in found["conjecture"][name])
        parts += [f"**{words}**, (M, R, T, L): {sizes}", ""] if sizes else []
    parts += ["## Circuits, K = M", "", "Rank found, and the lower bound (theorem for L <= 2, conjecture above).", ""]
    square = [row for row in _rows(found["rac"]) if row["K"] == row["M"]]
    depths = sorted({row["L"] for row in square})
    cells: dict[tuple[int, int, int], dict[int, str]] = {}
    for row in sorted(square, key=lambda row: (row["M"], row["R"], row["T"])):
        bound = row["conjecture"] if row["theorem"] is None else row["theorem"]
        sign = ">=" if row["rank"] >= bound else "<"
        cells.setdefault((row["M"], row["R"], row["T"]), {})[row["L"]] = f"{row['rank']} {sign} {bound}"
    heads = ["M", "R", "T", *(f"L = {depth}" for depth in depths)]
    parts += _table(heads, [[*size, *(found.get(depth, "") for depth in depths)] for size, found in cells.items()])
    parts += ["", "## Tensor trains", "", "Rank found with equal and with different cores.", ""]
    trains: dict[tuple[int, int, int], dict[str, Any]] = {}
    for row in sorted(_rows(found["tt"]), key=lambda row: (row["n"], row["r"], row["d"])):
        train = trains.setdefault((row["n"], row["r"], row["d"]), {"bound": row["bound"], "upper": row["upper"]})
        train["equal" if row["equal"] else "different"] = row["rank"]
        train |= {"printed": row["printed"]} if row["equal"] else {}
    heads = ["printed", "bound", "equal", "different", "upper"]
    parts += _table(
        ["n", "r", "d", *heads], [[*size, *(row.get(head) for head in heads)] for size, row in trains.items()]
    )
    return "\n".join(parts) + "\n"


def _table(heads: list[str], rows: list[list[Any]]) -> list[str]:
    lines = [["-" if value is None else str(value) for value in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in ([*heads], ["---"] * len(heads), *lines)]


def plot_atlas(found: dict[str, Any], path: Path) -> None:
    """Plot the rank against length (above, one line per depth) and depth (below, one line per length), for M = R = K.

    Points: rank found; dashed: the lower bound (theorem or conjecture); thin: the upper bound. SVG or PNG.
    """
    square = [row for row in _rows(found["rac"]) if row["K"] == row["M"] == row["R"]]
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
