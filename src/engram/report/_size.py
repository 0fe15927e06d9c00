"""What depth and width cost for a lag, as a figure."""

from pathlib import Path

from engram.figures import BLUE, ORANGE, new_figure, plain_log
from engram.theory import Sizing


def plot_sizes(rows: list[Sizing], path: Path, title: str) -> None:
    """Plot width, units and parameters over the depth; the row with the fewest parameters is marked. SVG or PNG.

    Args:
        rows: one per depth.
        path: a name ending in .svg or .png.
        title: what the networks do, for the line above the figure.
    """
    best = next(row for row in rows if row.fewest)
    told = f"fewest parameters: {best.parameters:,}, with {best.depth} x {best.hidden} units"
    panels = {"hidden": "Units per layer", "units": "Units of all layers", "parameters": "Parameters"}
    with new_figure(path, 1, 3, height=3.2, title=f"{title}\n{told} (square)") as figure:
        for axes, (name, label) in zip(figure.axes, panels.items(), strict=True):
            axes.plot([row.depth for row in rows], [getattr(row, name) for row in rows], ".-", color=BLUE)
            axes.plot([best.depth], [getattr(best, name)], "s", color=ORANGE, markersize=8)
            axes.set(title=label, xlabel="layers", xscale="log", yscale="log")
            plain_log(axes.xaxis)
            plain_log(axes.yaxis)
