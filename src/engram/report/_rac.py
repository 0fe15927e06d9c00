"""The tensor network of a deep recurrent arithmetic circuit, with its copies."""

from math import comb
from pathlib import Path
from typing import Any

from engram.errors import OptionError, check_size
from engram.figures import BLUE, INK, MAGENTA, MUTED, ORANGE, PAPER, WIDTH, check_figure, new_figure
from engram.theory import Chain, unroll

START, END, JOINT = BLUE, ORANGE, MAGENTA
MOST_ROWS, MOST_STEPS = 60, 24


def plot_rac(depth: int, steps: int, path: Path) -> int:
    """Plot the tree of :func:`engram.theory.unroll`, one row per chain, time from left to right.

    Every copy of the unit of layer 1 that joins Start and End is marked. Returns their number.

    Args:
        depth: L, the layers.
        steps: T, even.
        path: a name ending in .svg or .png.
    """
    check_figure(path)
    check_size("depth", depth)
    check_size("steps", steps, 2)
    small = steps <= MOST_STEPS and depth <= MOST_ROWS  # else even counting may take for ever
    rows = sum(comb(steps + above - 1, above) for above in range(depth)) if small else MOST_ROWS + 1
    if rows > MOST_ROWS:
        count = f"{rows:,}" if small else "too many"
        raise OptionError(
            f"depth {depth} over {steps} steps has {count} rows of units: at most {MOST_ROWS} rows of {MOST_STEPS} "
            "steps can be read; choose a smaller depth or fewer steps"
        )
    tree = unroll(depth, steps)
    with new_figure(path, width=max(WIDTH, 3.2 + 0.72 * steps), height=2.2 + 0.29 * rows) as figure:
        drawing = _Drawing(figure.axes[0], steps)
        drawing.chain(tree)
        drawing.frame(depth, rows)
    return drawing.joints


class _Drawing:
    """Rows from the top down; the chain below unit (l, t) ends under it, at the same time t."""

    def __init__(self, axis: Any, steps: int) -> None:
        self.axis, self.steps, self.half = axis, steps, steps // 2
        self.row, self.joints = 0, 0
        self.copies = dict.fromkeys(range(1, steps + 1), 0)  # of each input

    def color(self, time: int) -> str:
        return START if time <= self.half else END

    def chain(self, chain: Chain) -> int:
        """Plot it and all below; returns its row."""
        axis, row, times = self.axis, self.row, range(1, chain.length + 1)
        self.row += 1
        axis.plot([0.55, chain.length], [row, row], color=MUTED, linewidth=1.1, zorder=1)
        axis.plot([0.5], [row], marker=".", color=MUTED, markersize=3, zorder=2)  # the initial state
        if chain.layer == 1:
            if chain.joins(self.half):
                self.joints += 1
                ends = [self.half, self.half + 1]
                axis.plot(ends, [row, row], color=JOINT, linewidth=9, alpha=0.25, solid_capstyle="round", zorder=1.5)
                axis.plot(ends, [row, row], color=JOINT, linewidth=2, zorder=1.6)
            for time in times:  # the inputs
                self.copies[time] += 1
                axis.plot([time, time], [row, row + 0.38], color=self.color(time), linewidth=0.9, zorder=1)
                axis.plot([time], [row + 0.42], marker="^", markersize=4, color=self.color(time), zorder=2)
        for time, below in zip(times, chain.below, strict=False):
            place = self.chain(below)
            axis.plot([time, time], [row, place], color=MUTED, linewidth=0.8, zorder=0.5)
        for time in times:
            if chain.layer == 1:
                axis.plot([time], [row], marker="o", markersize=8, color=self.color(time), zorder=3)
            else:
                circle = {"boxstyle": "circle,pad=0.25", "facecolor": PAPER, "edgecolor": self.color(time)}
                axis.text(time, row, chain.layer, ha="center", va="center", fontsize=6.5, bbox=circle, zorder=4)
        return row

    def frame(self, depth: int, rows: int) -> None:
        """Halves, times, legend and caption."""
        from matplotlib.lines import Line2D

        axis, middle, right = self.axis, self.half + 0.5, self.steps + 0.5
        axis.axvspan(0.2, middle, color=START, alpha=0.05, linewidth=0, zorder=0)
        axis.axvspan(middle, right, color=END, alpha=0.07, linewidth=0, zorder=0)
        axis.axvline(middle, color=MUTED, linewidth=0.9, linestyle=":", zorder=0.6)
        arrow = {"arrowprops": {"arrowstyle": "<-", "shrinkA": 0, "color": INK}}
        axis.annotate("$y^{T}$", (self.steps + 0.12, 0), (self.steps + 0.75, 0), va="center", **arrow)
        for place, name, color in (((0.2 + middle) / 2, "Start", START), ((middle + right) / 2, "End", END)):
            axis.text(place, -1.0, name, color=color, ha="center", fontsize=10, fontweight="bold")
        axis.set(xlim=(0.2, self.steps + 1.1), ylim=(rows, -1.5), yticks=[])
        axis.set_xticks(list(self.copies), [f"$x^{{{time}}}$\n{count}" for time, count in self.copies.items()])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.grid(visible=False)
        point: dict[str, Any] = {"linestyle": "", "marker": "o", "markeredgecolor": MUTED}
        copy = "copy of an input (below: how many)"
        handles = [
            Line2D([], [], color=JOINT, linewidth=5, alpha=0.6, label="unit of layer 1 that joins Start and End"),
            Line2D([], [], **point, markerfacecolor=PAPER, markersize=9, label="unit of a higher layer, by number"),
            Line2D([], [], **point, markerfacecolor=MUTED, markersize=6, label="unit of layer 1 (product)"),
            Line2D([], [], linestyle="", marker="^", color=MUTED, markersize=5, label=copy),
        ]
        handles = handles if depth > 1 else [handles[0], *handles[2:]]
        axis.figure.legend(handles=handles, loc="outside lower center", ncols=1 if self.steps < 8 else 2)
        copies = "copy" if self.joints == 1 else "copies"
        axis.set_title(
            f"Recurrent arithmetic circuit, L = {depth}, T = {self.steps}\n"
            rf"{self.joints} {copies} of the joining unit = $\left(\!\binom{{T/2}}{{L-1}}\!\right)$",
        )
