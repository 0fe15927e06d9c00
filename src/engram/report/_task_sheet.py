"""A trial of images: its rows, a question mark where one is missing, and a frame around the right choice."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engram.figures import BLUE, INK, MUTED, ORANGE, WIDTH
from engram.tasks import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 1 / 8
"""Between two images, in sides of an image."""
LARGEST = 0.55
"""Inches of the side of an image."""


def arranged_sheet(task: Task) -> tuple[int, float]:
    """How many trials fit beside each other, and the inches in height that each takes."""
    rows = _rows(task)
    wide = max(rows) * (1 + GAP) + 0.6
    side = min(LARGEST, (WIDTH - 0.3) / wide)
    return max(1, int((WIDTH - 0.2) / (side * wide))), side * (len(rows) * (1 + GAP)) + 0.36


def plot_trial(axes: "Axes", task: Task, inputs: Tensor, targets: Tensor, mask: Tensor) -> None:
    """One trial: inputs ``(T, ...)`` images or rows of the task's objects, targets ``(S,)``."""
    table = task.objects()
    images = inputs if table is None or inputs.is_floating_point() else table[inputs]
    answer, choice, rows = int(targets[-1]), getattr(task, "choice", 0), _rows(task)
    first = task.steps - choice * task.output_size
    step = 0
    for row, many in enumerate(rows):
        for column in range(many):
            number = (step - first) // choice if choice and step >= first else -1  # of the choice
            place = column + (0.4 * number if choice > 1 and number > 0 else 0)
            _image(axes, images[step], place * (1 + GAP), row * (1 + GAP), number == answer)
            step += 1
        if choice == 1 and row == len(rows) - 2:
            axes.text((many + 0.5) * (1 + GAP), (row + 0.5) * (1 + GAP), "?", ha="center", va="center", color=MUTED)
    across = max(rows) * (1 + GAP) + (0.4 * (task.output_size - 1) if choice > 1 else 0)
    axes.set(xlim=(-GAP, across + GAP), ylim=(len(rows) * (1 + GAP), -GAP), aspect="equal", anchor="NW")
    axes.set_axis_off()
    names = getattr(task, "answers", None)
    axes.set_title(names[answer] if names else f"class {answer}", color=BLUE if names else INK)


def _image(axes: "Axes", image: Tensor, x: float, y: float, marked: bool) -> None:
    """An image of one or three channels at its place, with a thin line around it."""
    pixels = image.permute(1, 2, 0).expand(-1, -1, 3).clamp(0, 1)
    shown = (pixels * 255).round().to(torch.uint8).numpy()
    axes.imshow(shown, extent=(x, x + 1, y + 1, y), interpolation="nearest")
    from matplotlib.patches import Rectangle

    line = {"edgecolor": ORANGE, "linewidth": 2.2} if marked else {"edgecolor": MUTED, "linewidth": 0.5}
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, **line))  # type: ignore[arg-type]


def _rows(task: Task) -> tuple[int, ...]:
    rows: tuple[int, ...] = getattr(task, "rows", (task.steps,))
    return rows
