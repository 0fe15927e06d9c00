"""One style for every figure: palette, sizes, light and dark, and small helpers. Every room plots through it.

with new_figure(path, 1, 2, height=3.2, title="...") as figure:
    left, right = figure.axes
    left.plot(steps, losses, color=BLUE)
    label_right(left, [Label(losses[-1], "validation", BLUE)])
"""

from engram.figures._kinds import ROW, Dots, bars, dot_styles, dots, heat_colors, plain_log, rows
from engram.figures._labels import Label, label_right, reference, spread
from engram.figures._palette import (
    BLUE,
    DARK,
    FAINT,
    GREEN,
    HEAT,
    INK,
    MAGENTA,
    MARKERS,
    MUTED,
    ORANGE,
    PAPER,
    RED,
    SERIES,
    SKY,
)
from engram.figures._save import check_figure, save_figure, svg_text
from engram.figures._style import SMALL, WIDTH, new_figure

__all__ = [
    "BLUE",
    "DARK",
    "FAINT",
    "GREEN",
    "HEAT",
    "INK",
    "MAGENTA",
    "MARKERS",
    "MUTED",
    "ORANGE",
    "PAPER",
    "RED",
    "ROW",
    "SERIES",
    "SKY",
    "SMALL",
    "WIDTH",
    "Dots",
    "Label",
    "bars",
    "check_figure",
    "dot_styles",
    "dots",
    "heat_colors",
    "label_right",
    "new_figure",
    "plain_log",
    "reference",
    "rows",
    "save_figure",
    "spread",
    "svg_text",
]
