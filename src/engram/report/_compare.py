"""Several runs in one figure: a colour for each group, thin lines for its seeds, a thick one for their median."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram.errors import RunError
from engram.figures import MUTED, SERIES, Label, label_right, new_figure, reference
from engram.runs import ComparedRun, Comparison, Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[int, float]]
MOST_PANELS, MOST_LETTERS = 3, 48
"""Panels beside each other, and letters of an entry in the legend."""


def plot_compare(found: Comparison, path: Path) -> None:
    """Plot loss and metric of all runs over the steps, and as a dotted line what is reached without memory. SVG or PNG.

    Of more groups than there are colours the first, which are the best, have one each, and the others are grey. A cross
    ends the line of a run that diverged.
    """
    with compare_figure(found, path):
        pass


@contextmanager
def compare_figure(found: Comparison, path: Path | None) -> Iterator["Figure"]:
    """The figure of :func:`plot_compare`, to be put on a page; with a path it is written too."""
    scores = ["loss", *found.metrics][:MOST_PANELS]
    if not any(run.curve(score) for run in found.runs for score in scores):
        raise RunError("these runs have no metrics yet: nothing to plot")
    entries = min(len(found.groups), len(SERIES) + 1)
    height = 3.4 + 0.2 * -(-entries // 2)
    with new_figure(path, 1, len(scores), height=height, title=_title(found), squeeze=False) as figure:
        for axes, score in zip(figure.axes, scores, strict=True):
            _panel(axes, found, score)
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        names = sorted(handles, key=lambda label: int(label.split(":")[0].split()[0]))
        figure.legend([handles[name] for name in names], names, loc="outside lower left", ncols=2)
        for axes, score in zip(figure.axes, scores, strict=True):
            label_right(axes, [*_levels(axes, found, score), *_numbers(found, score)])
        yield figure


def _panel(axes: "Axes", found: Comparison, score: str) -> None:
    for group in reversed(found.groups):  # the best on top
        _lines(axes, group, score, len(found.groups))
    axes.set(xlabel="training step", ylabel=score)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    values = [value for run in found.runs for _, value in run.curve(score)]
    if score == "loss" and values and min(values) > 0:
        axes.set(yscale="log", ylabel="loss (log scale)")


def _lines(axes: "Axes", group: Group, score: str, groups: int) -> None:
    color, label = _look(group, groups)
    several = len(group.runs) > 1
    for run in group.runs:
        if points := run.curve(score):
            _line(axes, run, points, color, width=0.7 if several else 1.6, label="" if several else label)
    if several and (points := group.median(score)):
        marker = "o" if len(points) == 1 else ""
        axes.plot(*zip(*points, strict=True), color=color, linewidth=2.2, marker=marker, label=label)


def _line(axes: "Axes", run: ComparedRun, points: Points, color: str, width: float, label: str) -> None:
    marker = "o" if len(points) == 1 else ""
    width = 0.7 if color == MUTED else width
    axes.plot(*zip(*points, strict=True), color=color, linewidth=width, marker=marker, label=label or "_seed")
    if run.row.status == "diverged":
        axes.plot(*points[-1], color=color, marker="x", markersize=7, markeredgewidth=1.6, label="_end")


def _look(group: Group, groups: int) -> tuple[str, str]:
    """Its colour and its entry in the legend."""
    if group.number > len(SERIES):
        first = len(SERIES) + 1
        return MUTED, f"{first} to {groups}: others" if groups > first else f"{first}: {_short(group.label)}"
    seeds = f" ({len(group.runs)} seeds)" if len(group.runs) > 1 else ""
    return SERIES[group.number - 1], f"{group.number}: {_short(group.label)}{seeds}"


def _numbers(found: Comparison, score: str) -> list[Label]:
    """The number of each coloured group at the end of its line."""
    labels = []
    for group in found.groups[: len(SERIES)] if len(found.groups) > 1 else ():
        points = group.median(score) or [point for run in group.runs for point in run.curve(score)[-1:]]
        if points:
            labels.append(Label(points[-1][1], str(group.number), SERIES[group.number - 1]))
    return labels


def _levels(axes: "Axes", found: Comparison, score: str) -> list[Label]:
    """What is reached without memory, where all runs have one task."""
    row = found.groups[0].first
    level = row.memoryless_baseline if score == "loss" else row.chance
    if len(found.tasks) > 1 or level is None or (axes.get_yscale() == "log" and level <= 0):
        return []
    reference(axes, level)
    return [Label(level, "without\nmemory" if score == "loss" else "chance", MUTED)]


def _title(found: Comparison) -> str:
    runs, groups = len(found.runs), len(found.groups)
    tasks = ", ".join(found.tasks[:3]) + (" ..." if len(found.tasks) > 3 else "")
    what = f"{runs} runs" if runs > 1 else "1 run"
    return f"{what} on {_short(tasks)}" + (f", {groups} settings" if 1 < groups < runs else "")


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."
