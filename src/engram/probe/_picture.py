"""How the parts of a profile are plotted: the colours, what all panels share, and the figure of all panels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

BLUE, ORANGE, RED, GREY, LIGHT_GREY = "#0b5fa5", "#d98c3f", "#b04a3a", "#777777", "#bbbbbb"
LAYERS = (BLUE, ORANGE, "#7a5195", "#4d8b57")
"""Colours of several layers."""
COLUMNS = 3


def label(axes: Any, title: str, **labels: Any) -> None:
    """The title of a panel, its labels (xlabel, ylabel, ylim, ...) and a frame of two lines."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set(**labels)
    axes.spines[["top", "right"]].set_visible(False)


def figure_of(title: str, plots: Sequence[Callable[[Any], None]]) -> Any:
    """A matplotlib Figure with one panel per plot, three in a row."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    rows = max(1, math.ceil(len(plots) / COLUMNS))
    figure = Figure(figsize=(4.2 * COLUMNS, 3.3 * rows), layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for plot, axes in zip(plots, panels, strict=False):
        plot(axes)
    for axes in panels[len(plots) :]:
        axes.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
