"""Examples of a task with their answers: images as sheets, symbols as text, numbers as strips over time."""

from pathlib import Path

from engram.errors import check_choice, check_size
from engram.figures import check_figure, new_figure
from engram.report._task_sheet import arranged_sheet, plot_trial
from engram.report._task_strip import arranged_strips, plot_sequence
from engram.tasks import Task

MOST = 48
"""Examples in a figure."""
PAGE = 6.0
"""Default height of a sheet, in inches, where the number of examples is not given."""


def plot_task(task: Task, path: Path, examples: int = 0, split: str = "train", seed: int = 0) -> int:
    """Plot the first sequences of a split, each with its answer; return how many.

    Args:
        task: any task. One whose steps show images is plotted as a sheet, all others as strips.
        path: a name ending in .svg or .png.
        examples: how many. Default: 0, as many as fit on a page.
        split: ``"train"``, ``"valid"``, or one of the splits that the task is tested on.
        seed: random seed of the sequences.
    """
    check_figure(path)
    check_choice("split", split, ("train", *(("valid",) if task.has_validation else ()), *task.exams()))
    is_sheet = len(task.input_shape) == 3
    across, inches = (arranged_sheet if is_sheet else arranged_strips)(task)
    examples = check_size("examples", examples, 0, MOST) or across * max(1, int(PAGE / inches))
    asked = task.exams().get(split, task)
    batch = asked.batches(split, examples, seed, 0 if task.is_data_set else examples)[0]
    examples = min(examples, batch.inputs.shape[1])
    down = -(-examples // across)
    title = f"{task.name}, {split}: {_options(task)}"
    with new_figure(path, down, across, height=0.5 + inches * down, title=title.rstrip(": "), squeeze=False) as figure:
        for axes in figure.axes[examples:]:
            axes.set_axis_off()
        for row, axes in enumerate(figure.axes[:examples]):
            (plot_trial if is_sheet else plot_sequence)(axes, asked, *(part[:, row] for part in batch))
    return examples


def _options(task: Task) -> str:
    """Those that are on, in words."""
    given = {name: value for name, value in task.options().items() if value is not False and value != ()}
    return ", ".join(name if value is True else f"{name} {value}" for name, value in given.items())
