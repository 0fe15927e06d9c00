"""The figure of ``engram bench attention``: time per step and memory against the length of the sequence."""

from pathlib import Path
from typing import Any

from engram.figures import MUTED, PAPER, dot_styles, new_figure, plain_log

PANELS = {
    "microseconds per step": lambda row: 1e3 * row["median_ms"] / row["T"],
    "peak memory of a training step (MB)": lambda row: row["memory_mb"],
}


def plot_attention(result: dict[str, Any], path: Path) -> None:
    """Plot time per step (left) and peak training memory (right) against T, one line per layer. SVG or PNG."""
    rows = result["rows"]
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    one, lengths = rows[0], sorted({row["T"] for row in rows})
    title = f"Attention in a recurrence: a training step of {one['H']} units, batch {one['B']}, one thread"
    with new_figure(path, 1, 2, height=4.6, title=title) as figure:
        for axes, (label, value) in zip(figure.axes, PANELS.items(), strict=True):
            for name, look in dot_styles(names).items():
                own = [row for row in rows if row["contestant"] == name]
                points = [(row["T"], max(value(row), 1e-3)) for row in own]
                face, dashes = (look.color, "-") if look.filled else (PAPER, "--")  # colours come twice
                axes.plot(
                    *zip(*points, strict=True), dashes, color=look.color, marker=look.marker, markerfacecolor=face,
                    label=name,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", xlabel="steps T (log scale)", ylabel=f"{label}, log scale")
            axes.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
            axes.set_xticks([], minor=True)
            plain_log(axes.yaxis)
        right = figure.axes[1]
        start = min(value(row) for row in rows if row["T"] == lengths[0])
        start = max(start, 1e-3)
        for power, style in ((1, ":"), (2, "-.")):
            line = [start * (steps / lengths[0]) ** power for steps in lengths]
            right.plot(lengths, line, style, color=MUTED, linewidth=1, label=f"T^{power}" if power > 1 else "T")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower left", ncols=5)
