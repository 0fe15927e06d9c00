"""The learning curves of a run."""

from pathlib import Path
from typing import Any

from engram.errors import OptionError, RunError
from engram.train import RunDirectory

TRAIN, VALID, QUIET = "#9bb7d4", "#0b5fa5", "#888888"


def draw_curves(run: RunDirectory, path: Path) -> None:
    """Loss and metric over the steps, with what is reached without memory as a dotted line."""
    from matplotlib.figure import Figure  # slow to import

    if path.suffix not in (".svg", ".png"):
        raise OptionError(f"a picture ends in .svg or .png, got {path}")
    lines, task = run.metrics(), run.settings.task
    if not lines:
        raise RunError(f"{run.folder} has no metrics yet: nothing to draw")
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    loss, metric = figure.subplots(1, 2)
    _panel(loss, lines, "loss", task.memoryless_baseline, "without memory")
    _panel(metric, lines, task.metric, task.chance, "chance")
    loss.set_yscale("log")
    loss.legend(frameon=False)
    settings = run.settings
    figure.suptitle(
        f"{settings.model} on {task.name}, {settings.hidden} hidden units, seed {settings.seed}", x=0.01, ha="left"
    )
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axis: Any, lines: list[dict[str, Any]], name: str, level: float, label: str) -> None:
    for split, color, width in (("train", TRAIN, 1.0), ("valid", VALID, 1.8), ("test", "#d98c3f", 0)):
        points = [(line["step"], line[name]) for line in lines if line["split"] == split and name in line]
        if points:
            marker = "o" if split == "test" or len(points) == 1 else None
            axis.plot(*zip(*points, strict=True), color=color, linewidth=width, marker=marker, label=split)
    axis.axhline(level, color=QUIET, linewidth=0.8, linestyle=":")
    axis.annotate(label, (axis.get_xlim()[0], level), xytext=(3, 3), textcoords="offset points", color=QUIET)
    axis.set(xlabel="step", ylabel=name)
    axis.spines[["top", "right"]].set_visible(False)
