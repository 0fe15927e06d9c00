"""The loss of a learning-rate range test, as a figure."""

from pathlib import Path

from engram.figures import BLUE, ORANGE, SKY, new_figure
from engram.train import RULE, RateTest


def plot_rates(test: RateTest, path: Path, title: str) -> None:
    """Plot the loss over the rate, smoothed and as it was, with the suggested rate and where the loss exploded.

    Args:
        test: of :func:`engram.train.find_lr`.
        path: a name ending in .svg or .png.
        title: what was trained, for the line above the figure.
    """
    with new_figure(path, height=3.4, title=f"{title}\nsuggested: {test.lr:g}, {RULE}") as figure:
        (axes,) = figure.axes
        axes.plot(test.rates, test.losses, color=SKY, linewidth=1, label="loss of each step")
        axes.plot(test.rates, test.smoothed, color=BLUE, linewidth=2, label="smoothed")
        axes.axvline(test.lr, color=ORANGE, label=f"suggested rate, {test.lr:g}")
        if test.exploded is not None:
            axes.axvline(test.exploded, color=ORANGE, linestyle=":", label=f"exploded at {test.exploded:.2g}")
        axes.set(xlabel="learning rate (log scale)", ylabel="training loss", xscale="log")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=4)
