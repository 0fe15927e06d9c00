"""``engram plot task``."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from engram.cli._command import empty_app, option
from engram.cli._console import terminal
from engram.cli._train_flags import Flags, add_task
from engram.cli._train_words import names_in
from engram.report import plot_task
from engram.tasks import TASKS, Task, make_task, task_class

OWN: dict[str, tuple[Any, Any, str]] = {
    "examples": (int, 0, "How many; default: as many as fit on a page."),
    "split": (str, "train", "train, valid, or a split that the task is tested on."),
    "seed": (int, 0, "Random seed of the examples."),
    "output": (Annotated[Path, Parameter(alias="-o")], Path("task.png"), "Where the figure goes (.svg or .png)."),
}
"""The options that are of the command, not of the task: type, default, help."""


@dataclass(frozen=True)
class PlotTask:
    """Examples of a task with their answers: images as sheets, symbols as text, numbers as strips over time.

    Examples:
        engram plot task identity-rules -o examples.png
        engram plot task relational-game --rule between --split test-stripes -o between.png
        engram plot task copy --delay 20 -o copy.svg
        engram plot task dist-n --help        (the options of a task)
    """

    task: Task
    examples: int = 0
    split: str = "train"
    seed: int = 0
    output: Path = Path("task.png")

    def run(self) -> None:
        count = plot_task(self.task, self.output, self.examples, self.split, self.seed)
        terminal().print(f"{count} example{'s' if count > 1 else ''}\nfigure: {self.output}")


def task_app(name: str, words: list[str]) -> App:
    """The command with the options of the task that the words name."""
    said = Parameter(name="TASK", metavar="TASK", help=f"One of {', '.join(TASKS)}.", show_default=False)
    flags = Flags()
    alone = inspect.Parameter.POSITIONAL_ONLY
    flags.add(("", "task"), inspect.Parameter("task", alone, annotation=Annotated[str, said]))
    if (named := names_in(words).task) is not None:
        add_task(flags, task_class(named), {})
    for own, (hint, default, text) in OWN.items():
        flags.add(("own", own), option(own, hint, default, text))

    def make(task: str, **given: Any) -> PlotTask:
        own = {key: value for key, value in given.items() if flags.places[key][0] == "own"}
        options = {key: value for key, value in given.items() if key not in own}
        return PlotTask(make_task(task, **options), **own)

    return empty_app(name, PlotTask.__doc__ or "", make, flags.parameters)
