"""``engram evaluate``."""

import json
import math
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from engram.cli._console import terminal
from engram.cli._options import apart, read_options
from engram.cli._run_words import Allow, Run, check_run, without_files
from engram.cli._verdict import verdict
from engram.errors import OptionError, unknown
from engram.files import printable
from engram.report import plot_curves
from engram.tasks import Task, make_task, task_name
from engram.train import RunDirectory, evaluate

FAR = 2.0
"""A loss that is so many times that of any sensible guess is worth a warning: the network does harm."""
OF_NUMBERS = ("mse", "r2")
"""Metrics of tasks whose outputs are numbers, not classes."""
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluate:
    """Test runs, finished or not, on sequences they have not seen; plot their curves.

    Examples:
        engram evaluate runs/first --plot
        engram evaluate runs/first --option delay=2000
        engram evaluate runs/*
    """

    folders: Annotated[tuple[Path, ...], *Run.__metadata__]
    """Run directories."""
    _: KW_ONLY
    split: str | None = None
    """train, valid, test or another exam of the task (test-400 of transfer-copy); default: all exams."""
    option: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE")] = ()
    """Options of the task to change, as NAME=VALUE: delay=2000."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    plot: bool = False
    """Plot loss and metric over the steps to curves.svg in each run directory."""
    json: bool = False
    """Print one JSON object: scores by split; of several runs, by run and split."""

    def __post_init__(self) -> None:
        option, folders = apart(self.option, self.folders)
        object.__setattr__(self, "option", option)
        object.__setattr__(self, "folders", tuple(Path(folder) for folder in without_files(folders)))

    def run(self) -> None:
        if not self.folders:
            raise OptionError("engram evaluate needs RUN, a run directory. Example: engram evaluate runs/first --plot")
        for folder in self.folders:
            check_run(folder)
        found = {str(folder): self._evaluate(folder) for folder in self.folders}
        if self.json:
            print(json.dumps(found if len(found) > 1 else next(iter(found.values()))))

    def _evaluate(self, folder: Path) -> Scores:
        run, console = RunDirectory(folder, self.allow), terminal(stderr=True)
        with console.status(Text(f"evaluating {printable(str(folder))} ...")):
            options, task = read_options(self.option), run.settings.task
            if strange := [name for name in options if name not in task.options()]:
                raise unknown(f"option of {task.name}", strange[0], task.options())
            results = evaluate(folder, self.split, best=not self.last, allow=self.allow, **options)
        name = f"{printable(str(folder))} " if len(self.folders) > 1 else ""
        for split, scores in results.items():
            if not self.json:
                print(f"{name}{split}: " + ", ".join(f"{score} {value:.5g}" for score, value in scores.items()))
            self._warn(run, _exam(run, split, options), split, scores["loss"])
        if self.plot:
            plot_curves(run, run.folder / "curves.svg")
            console.print(f"figure: {printable(str(run.folder / 'curves.svg'))}")
        return results

    def _warn(self, run: RunDirectory, task: Task, split: str, loss: float) -> None:
        """Say what is wrong where a loss is far above what an answer without memory has."""
        baseline = task.memoryless_baseline
        classes = 1 if task.metric in OF_NUMBERS else max(task.output_size, 2)
        guess = max(baseline, math.log(classes))  # each class with the same chance
        if not baseline > 0 or loss <= FAR * guess:
            return
        times = f"{loss / baseline:,.3g} times" if math.isfinite(loss) else "beyond"
        terminal(stderr=True).print(
            f"engram: warning: {printable(str(run.folder))}, {split}: a loss of {loss:.4g} is {times} that of an "
            f"answer without memory ({baseline:.4g}). {verdict(run, task, best=not self.last)}"
        )


def _exam(run: RunDirectory, split: str, options: dict[str, Any]) -> Task:
    """The task that a split tests."""
    trained = run.settings.task
    task = make_task(task_name(trained), **{**trained.options(), **options}) if options else trained
    return task.exams().get(split, task)
