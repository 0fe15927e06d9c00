"""An atlas of ranks as a page and as a picture."""

from pathlib import Path
from typing import Any

from engram.pictures import check_picture, save_picture

COLORS = ("#888888", "#0b5fa5", "#d98c3f", "#b04a3a", "#7a5195", "#4d8b57", "#c2a100", "#3b3b3b", "#5aa0d8", "#a05a2c")
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


def draw_atlas(found: dict[str, Any], path: Path) -> None:
    """Rank against length (above, one colour a depth) and against depth (below, one colour a length), for M = R = K.

    Points: rank found; dashed: the lower bound (theorem or conjecture); thin: the upper bound. SVG or PNG.
    """
    check_picture(path)
    from matplotlib.figure import Figure  # slow to import, and only needed here

    square = [row for row in _rows(found["rac"]) if row["K"] == row["M"] == row["R"]]
    modes = sorted({row["M"] for row in square})[:3]
    figure = Figure(figsize=(3.9 * max(1, len(modes)), 6.8), layout="constrained")
    axes = figure.subplots(2, max(1, len(modes)), squeeze=False, sharey="col")
    for column, m in enumerate(modes):
        for axis, along, apart in ((axes[0, column], "T", "L"), (axes[1, column], "L", "T")):
            _panel(axis, [row for row in square if row["M"] == m], along, apart)
            words = {"T": "length T", "L": "depth L"}
            axis.set(xlabel=words[along], yscale="log")
            axis.set_yscale("log", base=m)
            axis.legend(title=words[apart], fontsize=7, title_fontsize=8, frameon=False, loc="upper left")
            axis.set_title(f"M = R = {m}" if along == "T" else "", loc="left", fontsize=10)
        for axis in axes[:, 0]:
            axis.set_ylabel("Start-End rank")
    figure.suptitle(
        "Rank found (points), lower bound of theorem or conjecture (dashed), upper bound (thin)", x=0.01, ha="left"
    )
    save_picture(figure, path)


def _panel(axis: Any, rows: list[dict[str, Any]], along: str, apart: str) -> None:
    """One colour for each value of ``apart``."""
    values = sorted({row[apart] for row in rows})
    if apart == "T":  # lengths beyond the first few stand on each other
        values = values[:: max(1, len(values) // 5)]
    depths = 4  # deeper ones are at the cap
    values = values[:depths] if apart == "L" else values
    for number, (color, value) in enumerate(zip(COLORS, values, strict=False)):
        line = sorted((row for row in rows if row[apart] == value), key=lambda row: row[along])
        x = [row[along] for row in line]
        bound = [row["conjecture"] if row["theorem"] is None else row["theorem"] for row in line]
        axis.plot(x, [row["upper"] for row in line], color=color, linewidth=0.7)
        axis.plot(x, bound, color=color, linewidth=1.1, linestyle="--")
        size = 3.2 + 0.9 * (len(values) - 1 - number)  # points at one place stand inside each other
        ranks = [row["rank"] for row in line]
        axis.plot(x, ranks, color=color, linestyle="", marker="o", markersize=size, alpha=0.8, label=value)
    axis.set_xticks(sorted({row[along] for row in rows}))
    axis.spines[["top", "right"]].set_visible(False)
