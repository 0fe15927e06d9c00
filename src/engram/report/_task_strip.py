"""A sequence over time: what is seen at each step, and below it what is asked."""

from math import isqrt
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.figures import BLUE, INK, ORANGE, SKY
from engram.tasks import MNISTPatches, PixelMNIST, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP, LINES = 2.3, 1.25
"""Inches in height of a sequence of numbers, and of a text."""
LETTERS = 48
"""Steps of a text that are shown."""


def arranged_strips(task: Task) -> tuple[int, float]:
    """How many sequences fit beside each other, and the inches in height that each takes."""
    if isinstance(task, PixelMNIST | MNISTPatches):
        return 4, STRIP
    return 1, LINES if task.vocabulary else STRIP


def plot_sequence(axes: "Axes", task: Task, inputs: Tensor, targets: Tensor, mask: Tensor) -> None:
    """One sequence: inputs ``(T, D)`` or symbols ``(T,)``, targets ``(S,)`` or ``(S, C)``, mask ``(S,)``."""
    if task.vocabulary:
        _plot_text(axes, task, inputs, targets, mask)
    elif isinstance(task, PixelMNIST | MNISTPatches):
        _plot_image(axes, inputs, int(targets[-1]))
    else:
        _plot_numbers(axes, task, inputs.float(), targets, mask)


def _plot_text(axes: "Axes", task: Task, inputs: Tensor, targets: Tensor, mask: Tensor) -> None:
    """Symbols in two lines: those that are seen, and those that come next."""
    shown = min(LETTERS, int(mask.nonzero().max()) + 1)
    for line, symbols in enumerate((inputs, targets)):
        for step, symbol in enumerate(task.spelled(symbols[:shown])):
            axes.text(step, line, symbol, ha="center", va="center", color=(INK, BLUE)[line], family="monospace")
    axes.set(xlim=(-0.6, LETTERS - 0.4), ylim=(1.6, -0.6), yticks=(0, 1), xlabel="step")
    axes.set_yticklabels(["input", "target"])
    axes.grid(visible=False)


def _plot_image(axes: "Axes", inputs: Tensor, answer: int) -> None:
    """An image that is shown piece by piece, put together again in the order in which the pieces come."""
    across, side = isqrt(len(inputs)), isqrt(inputs.shape[1])
    gap = 1 if side > 1 else 0
    pieces = F.pad(inputs.view(across, across, side, side), (0, gap, 0, gap))
    whole = pieces.transpose(1, 2).reshape(across * (side + gap), -1)
    axes.imshow(_coloured(whole), interpolation="nearest")
    axes.set_title(f"answer: {answer}", color=BLUE)
    axes.set_axis_off()


def _plot_numbers(axes: "Axes", task: Task, inputs: Tensor, targets: Tensor, mask: Tensor) -> None:
    """The features of the input as rows of a bitmap, those of the target below, one column per step."""
    from matplotlib.ticker import MaxNLocator

    steps, features = inputs.shape
    axes.imshow(_coloured(inputs.T), extent=(-0.5, steps - 0.5, features, 0), aspect="auto", interpolation="nearest")
    if task.answer == "last":
        value = targets[-1]
        said = f"{int(value)}" if not targets.is_floating_point() else ", ".join(f"{v:.3g}" for v in value.tolist())
        axes.set_title(f"answer: {said}", color=BLUE)
        axes.set(ylabel="input", yticks=(), xlabel="step")
    else:
        classes = not targets.is_floating_point()
        asked = F.one_hot(targets, task.output_size).float() if classes else targets
        gap = max(1.0, 0.1 * (features + asked.shape[1]))
        top, bottom = features + gap, features + gap + asked.shape[1]
        asked = asked * mask[:, None]
        axes.imshow(_coloured(asked.T), extent=(-0.5, steps - 0.5, bottom, top), aspect="auto", interpolation="nearest")
        axes.set(ylim=(bottom, 0), xlabel="step", yticks=(features / 2, (top + bottom) / 2))
        axes.set_yticklabels(["input", "target"])
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _coloured(values: Tensor) -> Any:
    """A bitmap ``(rows, columns, 4)``: from nothing at 0 to one colour at the largest value, another at the least."""
    from matplotlib.colors import to_rgb

    strength = values / values.abs().max().clamp(min=1e-12)
    above, below = torch.tensor(to_rgb(SKY)), torch.tensor(to_rgb(ORANGE))
    colours = torch.where(strength[..., None] >= 0, above, below)
    return torch.cat([colours, strength.abs()[..., None]], -1).numpy()
