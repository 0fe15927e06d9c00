"""What a run tells while it runs: a progress bar on a terminal, lines in stdout.log, events for TensorBoard."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engram.errors import OptionError
from engram.files import printable
from engram.tasks import Task
from engram.train._files import AppendedFile


class Report:
    """Quiet unless ``show``; a bar only on a terminal. Everything said is also in stdout.log."""

    def __init__(self, folder: Path, task: Task, total: int, show: bool, tensorboard: bool, step: int) -> None:
        self.task, self.show = task, show
        self.log = AppendedFile(folder / "stdout.log")
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
        columns = (
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn(f"loss {{task.fields[loss]:.4g}} (baseline {task.memoryless_baseline:.4g})"),
            TextColumn(f"{task.metric} {{task.fields[metric]:.3f}}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        )  # within 80 columns
        self.progress = Progress(*columns, console=self.console, disable=not (show and sys.stderr.isatty()))
        self.bar = self.progress.add_task(
            "training", total=total, completed=step, loss=float("nan"), metric=float("nan")
        )
        self.events: Any = _writer(folder / "tensorboard", step) if tensorboard else None
        self.progress.start()

    def say(self, text: str) -> None:
        """Print a line and log it, without control characters: text from a file cannot add lines of its own."""
        text = printable(text)
        self.log.write(text)
        if self.show:
            self.console.print(text)

    def at(self, step: int, loss: float) -> None:
        """The bar moves."""
        if not self.progress.disable:
            self.progress.update(self.bar, completed=step, loss=loss)

    def scores(self, line: dict[str, Any]) -> None:
        """A line of metrics.jsonl was written."""
        if self.task.metric in line:
            self.progress.update(self.bar, metric=line[self.task.metric])
        if line["split"] != "train":
            names = [name for name in line if name not in ("step", "split", "seconds", "lr")]
            self.say(f"step {line['step']} {line['split']}: " + ", ".join(f"{name} {line[name]:.4g}" for name in names))
        if self.events is not None:
            for name in line.keys() - {"step", "split"}:
                self.events.add_scalar(f"{line['split']}/{name}", line[name], line["step"])

    def close(self) -> None:
        self.progress.stop()
        self.log.close()
        if self.events is not None:
            self.events.close()


def check_tensorboard() -> None:
    """Whether events can be written."""
    if find_spec("tensorboard") is None:
        raise OptionError("tensorboard needs the package tensorboard: pip install 'engram[tensorboard]'")


def _writer(folder: Path, step: int) -> Any:
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)  # what the checkpoint has seen stays
