"""The learning curves of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram.errors import RunError
from engram.figures import BLUE, MUTED, SKY, Dots, Label, dot_styles, label_right, new_figure, reference
from engram.train import RunDirectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = {"train": (SKY, 1.0), "valid": (BLUE, 2.0)}
"""Colour and width of the splits that are measured all along; the others are exams, measured once."""


def plot_curves(run: RunDirectory, path: Path) -> None:
    """Plot loss and metric over the steps, with what is reached without memory as a dotted line. SVG or PNG."""
    settings, lines = run.settings, run.metrics()
    if not lines:
        raise RunError(f"{run.folder} has no metrics yet: nothing to plot")
    model, task = settings.model, settings.task
    title = f"{model.label} on {task.name}, {model.hidden} hidden units, seed {settings.seed}"
    with new_figure(path, 1, 2, height=3.4, title=title) as figure:
        loss, metric = figure.axes
        _panel(loss, lines, "loss")
        _panel(metric, lines, task.metric)
        loss.set(yscale="log", ylabel="loss (log scale)")
        figure.legend(*loss.get_legend_handles_labels(), loc="outside lower left", ncols=6)
        for axes, level, words in (
            (loss, task.memoryless_baseline, "without\nmemory"),
            (metric, task.chance, "chance"),
        ):
            reference(axes, level)
            label_right(axes, [Label(level, words, MUTED)])


def _panel(axes: "Axes", lines: list[dict[str, Any]], name: str) -> None:
    splits = dict.fromkeys(line["split"] for line in lines if line["split"] != "probe")
    exams = dot_styles([split for split in splits if split not in LINES], skip=[SKY, BLUE])
    for split in [*LINES, *exams]:
        points = [(line["step"], line[name]) for line in lines if line["split"] == split and name in line]
        if not points:
            continue
        color, width = LINES.get(split, ("", 0.0))
        look = exams.get(split, Dots(color, "o" if len(points) == 1 else ""))
        face = look.color if look.filled else "none"
        axes.plot(
            *zip(*points, strict=True), color=look.color, linewidth=width, marker=look.marker, markersize=6,
            markerfacecolor=face, label=split,
        )  # fmt: skip
    axes.set(xlabel="training step", ylabel=name)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
