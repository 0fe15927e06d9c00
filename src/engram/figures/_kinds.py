"""Kinds of panels that several rooms plot: bars with their numbers, rows of dots, heat maps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engram.figures._palette import BLUE, HEAT, MARKERS, MUTED, PAPER, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

ROW = 0.27
"""Inches that a row of bars or dots needs."""


class Dots(NamedTuple):
    """How one series of :func:`dots` looks."""

    color: str
    """Of the palette."""
    marker: str
    """The shape, as matplotlib names it."""
    filled: bool = True
    """Else only its outline."""


def dot_styles(names: Sequence[str], skip: Sequence[str] = ()) -> dict[str, Dots]:
    """Colours and shapes for series in order, without the colours in ``skip``; after the last they repeat, hollow."""
    pairs = [(color, marker) for color, marker in zip(SERIES, MARKERS, strict=True) if color not in skip]
    count = len(pairs)
    return {name: Dots(*pairs[k % count], filled=k // count % 2 == 0) for k, name in enumerate(names)}


def bars(axes: "Axes", values: Mapping[str, float], label: str) -> None:
    """One horizontal bar for each value, with its number at the end; a dotted line at 1, for values are ratios."""
    axes.axvline(1, color=MUTED, linewidth=1, linestyle=":")
    patches = axes.barh(range(len(values)), list(values.values()), color=BLUE, height=0.62)
    axes.bar_label(patches, fmt="%.2f", padding=3, bbox={"facecolor": PAPER, "linewidth": 0, "pad": 0.5})
    rows(axes, list(values))
    axes.set(xlabel=label, xlim=(0, 1.1 * max(1.1, *values.values(), 0)))


def dots(axes: "Axes", table: Mapping[str, Mapping[str, float]], series: Mapping[str, Dots]) -> None:
    """One row for each entry of ``table``, in it one dot for each series: ``table[row][series]`` on a log axis.

    A thin line goes from the first dot of a row to the last, so that the eye finds the row.
    """
    for place, values in enumerate(table.values()):
        shown = [values[name] for name in series if name in values]
        if shown:
            axes.plot([min(shown), max(shown)], [place, place], color=MUTED, linewidth=0.6, zorder=1)
    for name, look in series.items():
        points = [(values[name], place) for place, values in enumerate(table.values()) if name in values]
        if points:
            face = look.color if look.filled else PAPER
            shape: dict[str, Any] = {"linestyle": "", "marker": look.marker, "markersize": 6.5, "markeredgewidth": 1.3}
            axes.plot(*zip(*points, strict=True), color=look.color, markerfacecolor=face, label=name, **shape)
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    rows(axes, list(table))


def rows(axes: "Axes", names: Sequence[str]) -> None:
    """The names of rows at the left, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def plain_log(axis: Any) -> None:
    """Numbers as people write them (0.2, 50, 1,000) on a log axis; only those for which there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    decades = high / low if low > 0 else 1.0
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2000 else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))


def heat_colors() -> "Colormap":
    """From nothing (the background, light or dark) to one colour that is seen on both."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    return LinearSegmentedColormap.from_list("engram", [(*to_rgb(HEAT), 0.0), (*to_rgb(HEAT), 1.0)])
