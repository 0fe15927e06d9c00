"""What depth and width cost for a lag, as a picture."""

from pathlib import Path

from engram.pictures import check_picture, save_picture
from engram.theory import Sizing

LINE, BEST = "#0b5fa5", "#d98c3f"


def draw_sizes(rows: list[Sizing], path: Path, title: str) -> None:
    """Width, units and parameters over the depth; the row with the fewest parameters is marked. SVG or PNG."""
    check_picture(path)
    from matplotlib.figure import Figure  # slow to import, and only needed here
    from matplotlib.ticker import LogLocator, NullLocator

    best = next(row for row in rows if row.fewest)
    figure = Figure(figsize=(10.5, 3.2), layout="constrained")
    panels = {"hidden": "units a layer", "units": "units of all layers", "parameters": "parameters"}
    for axis, (name, label) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axis.plot([row.depth for row in rows], [getattr(row, name) for row in rows], ".-", color=LINE, linewidth=1.2)
        axis.plot([best.depth], [getattr(best, name)], "o", color=BEST, markersize=8)
        axis.set(title=label, xlabel="layers", xscale="log", yscale="log")
        for ticks in (axis.xaxis, axis.yaxis):
            ticks.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ticks.set_minor_locator(NullLocator())
            ticks.set_major_formatter("{x:,.0f}")
        axis.spines[["top", "right"]].set_visible(False)
    told = f"fewest parameters: {best.parameters:,}, with {best.depth} x {best.hidden} units"
    figure.suptitle(f"{title}; {told}", x=0.01, ha="left", fontsize=10)
    save_picture(figure, path)
