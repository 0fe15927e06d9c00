"""The figure of all parts of a profile."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engram.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3


def figure_of(title: str, plots: Sequence[Callable[[Any], None]]) -> "Figure":
    """A matplotlib Figure with one panel per plot, three in a row; a single one has the space of two, for the title."""
    columns = min(max(1, len(plots)), COLUMNS)
    rows = max(1, math.ceil(len(plots) / columns))
    with new_figure(None, rows, columns, width=4 * max(columns, 2), height=3.1 * rows, title=title) as figure:
        panels = figure.axes
        for plot, axes in zip(plots, panels, strict=False):
            plot(axes)
        for axes in panels[len(plots) :]:
            axes.set_axis_off()
    return figure
