"""The figure of a network's attention: which earlier states each step looked at, and how much each was looked at."""

from pathlib import Path

import numpy as np

from engram.figures import BLUE, ORANGE, heat_colors, new_figure
from engram.nn import Attention


def plot_attention_weights(attention: Attention, path: Path, title: str = "", row: int = 0, cell: int = 0) -> None:
    """Plot the attention of one sequence as a heat map (time down, the step that made a state across), and in total.

    Several heads are averaged. Beside it: the attention that the state of each step received in all later steps, and
    the states that are still attended to at the end.

    Args:
        attention: what ``layer(x, return_attention=True)`` gives.
        path: a name ending in .svg or .png.
        title: a line above the figure.
        row: which sequence of the batch.
        cell: which layer (and direction).
    """
    weights = attention.over_time()[cell, row].mean(0).cpu().numpy()
    ages = attention.ages[cell, row]
    steps = len(weights)
    last = int((ages >= 0).any(-1).sum()) - 1  # of a packed row, which may have ended before
    left = sorted({last - int(age) for age in ages[last] if 0 <= age <= last})
    with new_figure(path, 1, 2, height=3.6, title=title, width_ratios=(1.15, 1)) as figure:
        heat, total = figure.axes
        seen = np.where(weights > 0, weights, np.nan)
        most = float(np.quantile(weights[weights > 0], 0.98))  # the first steps have few states to look at
        image = heat.imshow(seen, cmap=heat_colors(), vmin=0, vmax=most, interpolation="nearest", aspect="auto")
        heat.set(
            title=f"Attention weight, up to {most:.2g}", xlabel="step that made the state", ylabel="step that attends"
        )
        heat.grid(visible=False)
        figure.colorbar(image, ax=heat, shrink=0.85)
        received = weights.sum(0)
        total.plot(range(steps), received, color=BLUE, linewidth=1)
        total.plot(left, received[left], ".", color=ORANGE, markersize=5)
        total.set(title=f"Received in all: {len(left)} states left at the end", xlabel="step that made the state")
        total.set(ylabel="sum of weights", ylim=(0, 1.1 * float(received.max())))
