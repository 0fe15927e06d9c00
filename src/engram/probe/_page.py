"""All parts of a profile as one picture."""

import math
import textwrap
from functools import partial
from typing import Any

COLUMNS = 3


def heading(part: str) -> str:
    """``fisher_memory`` as people write it."""
    return {"fisher_memory": "Fisher memory", "lyapunov": "Lyapunov"}.get(part, part.replace("_", " ").capitalize())


def figure_of(title: str, parts: dict[str, Any]) -> Any:
    """One panel a part, two for spectrum and separation rank; a part without a result tells its reason."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    drawings: list[Any] = []
    for name, part in parts.items():
        if isinstance(part, str):
            drawings.append(partial(_reason, name, part))
        else:
            drawings += [getattr(part, draw) for draw in ("draw", "draw_growth", "draw_splits") if hasattr(part, draw)]
    rows = max(1, math.ceil(len(drawings) / COLUMNS))
    figure = Figure(figsize=(4.2 * COLUMNS, 3.3 * rows), layout="constrained")
    axes = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for draw, axis in zip(drawings, axes, strict=False):
        draw(axis)
    for axis in axes[len(drawings) :]:
        axis.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _reason(name: str, reason: str, axis: Any) -> None:
    axis.set_axis_off()
    axis.set_title(heading(name), loc="left", fontsize=10)
    words = "\n".join(textwrap.wrap(f"not measured: {reason}", 44))
    axis.text(0.5, 0.5, words, ha="center", va="center", fontsize=8, color="#777777", transform=axis.transAxes)
