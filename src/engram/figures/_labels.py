"""Labels that do not collide."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engram.figures._palette import INK, MUTED
from engram.figures._style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_HEIGHT = 1.35
"""Of a line of text, over its font size."""


class Label(NamedTuple):
    """A text in the right margin of a panel."""

    y: float
    """Its height, in units of the data."""
    text: str
    """One line or more."""
    color: str = INK
    """Of the palette; that of the line which it names."""


def reference(axes: "Axes", level: float) -> None:
    """A dotted line across the panel: a bound, chance, a baseline. Its words go to :func:`label_right`."""
    axes.axhline(level, color=MUTED, linewidth=1, linestyle=":", zorder=1)


def label_right(axes: "Axes", labels: Sequence[Label]) -> None:
    """Write each label right of the panel at its height, moved apart as little as needed where they would collide.

    Call it last: scale, limits and what stands above and below the panel must be final. A label that had to move has
    a thin line back to its height.
    """
    figure = axes.get_figure(root=True)
    if figure is None or not labels:
        return
    figure.draw_without_rendering()  # the layout sets how many points a unit of y has
    scale = 72 / figure.dpi
    placeable = [label for label in labels if label.y > 0 or axes.get_yscale() != "log"]
    ordered = sorted(placeable, key=lambda label: label.y)
    at = [scale * float(axes.transData.transform((axes.get_xlim()[0], label.y))[1]) for label in ordered]
    if axes.yaxis_inverted():
        ordered, at = ordered[::-1], at[::-1]
    heights = [SMALL * LINE_HEIGHT * (1 + label.text.count("\n")) for label in ordered]
    moves = [placed - wanted for placed, wanted in zip(spread(at, heights), at, strict=True)]
    away = [abs(move) > 0.3 * SMALL for move in moves]
    line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
    for label, move, moved in zip(ordered, moves, away, strict=True):
        axes.annotate(
            label.text,
            (1, label.y),
            xycoords=("axes fraction", "data"),
            xytext=(14 if any(away) else 5, move),
            textcoords="offset points",
            color=label.color,
            va="center",
            annotation_clip=False,
            arrowprops=line if moved else None,
        )


def spread(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """The places nearest to ``places`` (ascending; least squares) at which boxes of these heights do not overlap.

    With the needed gaps taken out this is isotonic regression, solved by pooling neighbours that are out of order.
    """
    gaps = [0.0]
    for below, above in pairwise(heights):
        gaps.append(gaps[-1] + (below + above) / 2)
    pools: list[tuple[float, int]] = []  # mean and size
    for place, gap in zip(places, gaps, strict=True):
        mean, size = place - gap, 1
        while pools and pools[-1][0] > mean:
            other, many = pools.pop()
            mean, size = (mean * size + other * many) / (size + many), size + many
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [mean + gap for mean, gap in zip(flat, gaps, strict=True)]
