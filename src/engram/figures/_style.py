"""The style of every figure: sizes, type and colours, set once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram.figures._palette import FAINT, INK, MUTED, PAPER, SERIES
from engram.figures._save import check_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Inches."""
SMALL = 8.5
"""Points: labels beside lines, legends, ticks. Titles and axes have a point or two more."""

STYLE: dict[str, Any] = {
    "font.size": SMALL,
    "figure.titlesize": 11,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.color": INK,
    "patch.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-4, 5),
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.title_fontsize": SMALL,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
}


@contextmanager
def new_figure(
    path: Path | None,
    rows: int = 1,
    columns: int = 1,
    *,
    height: float,
    width: float = WIDTH,
    title: str = "",
    **options: Any,
) -> Iterator["Figure"]:
    """Give a figure of ``rows x columns`` panels (``figure.axes``) in our style; write it to ``path`` at the end.

    >>> from pathlib import Path
    >>> with new_figure(None, 1, 2, height=3, title="two panels") as figure:
    ...     left, right = figure.axes
    ...     line = left.plot([1, 2, 3])
    ...     labels = left.set(xlabel="step", ylabel="loss (nats)")

    Args:
        path: a name ending in .svg or .png, checked before anything is plotted; None: nothing is written.
        rows: panels above each other.
        columns: panels beside each other.
        height: inches of the whole figure.
        width: inches; leave the default of 9 where you can, so that the text has one size in all figures of a page.
        title: a line above all panels.
        options: passed on to ``Figure.subplots``: sharex, sharey, width_ratios, height_ratios.
    """
    if path is not None:
        check_figure(path)
    from cycler import cycler  # slow to import, and only needed here
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {**STYLE, "axes.prop_cycle": cycler(color=SERIES)}
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.subplots(rows, columns, **options)
        if title:
            figure.suptitle(title, x=0.008, ha="left")
        yield figure
        if path is not None:
            save_figure(figure, path)
