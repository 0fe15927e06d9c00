"""The learning curves of a run."""

from pathlib import Path
from typing import Any

from engram.errors import RunError
from engram.pictures import check_picture, save_picture
from engram.train import RunDirectory

TRAIN, VALID, QUIET = "#9bb7d4", "#0b5fa5", "#888888"
TESTS = ("#d98c3f", "#b04a3a", "#7a5195", "#4d8b57", "#555555")
MARKERS = "osD^v"


def draw_curves(run: RunDirectory, path: Path) -> None:
    """Loss and metric over the steps, with what is reached without memory as a dotted line. SVG or PNG."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    check_picture(path)
    lines, task = run.metrics(), run.settings.task
    if not lines:
        raise RunError(f"{run.folder} has no metrics yet: nothing to draw")
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    loss, metric = figure.subplots(1, 2)
    _panel(loss, lines, "loss", task.memoryless_baseline, "without\nmemory")
    _panel(metric, lines, task.metric, task.chance, "chance")
    loss.set_yscale("log")
    loss.legend(frameon=False, fontsize=9)
    settings = run.settings
    figure.suptitle(
        f"{settings.model.label} on {task.name}, {settings.model.hidden} hidden units, seed {settings.seed}",
        x=0.01,
        ha="left",
    )
    save_picture(figure, path)


def _panel(axis: Any, lines: list[dict[str, Any]], name: str, level: float, label: str) -> None:
    exams = [
        split for split in dict.fromkeys(line["split"] for line in lines) if split not in ("train", "valid", "probe")
    ]
    tests = [(split, TESTS[k % len(TESTS)], 0.0, MARKERS[k % len(MARKERS)]) for k, split in enumerate(exams)]
    for split, color, width, marker in [("train", TRAIN, 1.0, ""), ("valid", VALID, 1.8, ""), *tests]:
        points = [(line["step"], line[name]) for line in lines if line["split"] == split and name in line]
        if points:
            shape = marker or ("o" if len(points) == 1 else None)
            axis.plot(*zip(*points, strict=True), color=color, linewidth=width, marker=shape, markersize=5, label=split)
    axis.axhline(level, color=QUIET, linewidth=0.8, linestyle=":")
    beside = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
    axis.annotate(label, (1, level), **beside, color=QUIET, fontsize=9, va="center", annotation_clip=False)
    axis.set(xlabel="step", ylabel=name)
    axis.locator_params(axis="x", integer=True, min_n_ticks=1)
    axis.spines[["top", "right"]].set_visible(False)
