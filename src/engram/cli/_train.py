"""``engram train`` and ``engram resume``."""

import json
import sys
from dataclasses import dataclass, fields
from inspect import cleandoc
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, Union

import tyro
from rich.console import Console
from rich.table import Table

from engram.cli._console import plain
from engram.probe import watch
from engram.tasks import TASKS, Task
from engram.train import RunDirectory, Settings, plan, resume, train


def _example(task: type[Task]) -> str:
    """A line that can be typed, with the first option of the task that is a number."""
    numbers = ((field.name, field.default) for field in fields(task) if type(field.default) is int)
    words = next((f" --{name.replace('_', '-')} {default}" for name, default in numbers), "")
    return f"Example: engram train {task.name} --model nnrnn --hidden 128{words}"


AnyTask: Any = Union[  # noqa: UP007 - made at run time, one command a task
    tuple(
        Annotated[task, tyro.conf.subcommand(name, description=f"{cleandoc(task.__doc__ or '')}\n\n{_example(task)}")]
        for name, task in TASKS.items()
    )
]


@dataclass(frozen=True)
class Train(Settings):
    """Train a model on a task. The run is saved as it goes and can be stopped and resumed at any instant.

    Examples:
        engram train copy --model nnrnn --hidden 128 --delay 200
        engram train psmnist --model lstm --epochs 2 --batch 100
        engram train copy --config settings.toml --lr 1e-3
        engram train copy --help        (all options, those of the task too)
    """

    task: AnyTask
    """What is learned."""
    probe_every: Annotated[int, tyro.conf.arg(aliases=["--every"])] = 0
    """Steps between cheap measurements of the memory (engram probe): lines "probe" of metrics.jsonl; 0 for none."""
    out: Path = Path("runs")
    """The folder of runs."""
    name: str | None = None
    """The folder of this run within it; made of task, model and time unless given."""
    config: Path | None = None
    """A TOML file: settings as keys, options of the task under [task]. What is on the command line goes before."""
    dry_run: bool = False
    """Only show settings, parameters, time and memory, from a few measured steps."""
    json: bool = False
    """Print one JSON object at the end."""

    def run(self) -> None:
        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        if self.dry_run:
            _show_plan(plan(settings), self.json)
        else:
            command = join(["engram", *sys.argv[1:]])
            _show_run(train(settings, self.out, self.name, show=True, command=command, observe=watch), self.json)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, killed or failed, as if nothing had happened.

    Example: engram resume runs/copy-nnrnn-20261115-120000
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    steps: int | None = None
    """Train a run that is done further, to this many steps in all."""
    json: bool = False
    """Print one JSON object at the end."""

    def run(self) -> None:
        _show_run(resume(self.folder, steps=self.steps, show=True, observe=watch), self.json)


def _show_run(run: RunDirectory, as_json: bool) -> None:
    if as_json:
        names = ("status", "step", "parameters", "results", "best")
        print(json.dumps({"run": str(run.folder), **{name: run.facts.get(name) for name in names}}))
        return
    task, console = run.settings.task, plain()
    for split, scores in run.facts["results"].items():
        shown = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
        share = scores["loss"] / task.memoryless_baseline
        console.print(f"{split}: {shown} ({share:.1%} of the memoryless baseline)")
    console.print(f"run: {run.folder} (engram evaluate {quote(str(run.folder))} --plot draws its curves)")


def _show_plan(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts))
        return
    settings = facts.pop("settings")
    table = Table("setting", "value", title="Settings")
    for name, value in settings.items():
        table.add_row(name, str(value))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{facts['parameters']:,} parameters; {facts['steps']:,} steps of {facts['sequence_length']} time steps; "
        f"about {facts['seconds']:,.0f} s of training ({1000 * facts['seconds_a_step']:.1f} ms a step) "
        f"and {facts['peak_memory_mb'] or 0:,.0f} MB. Memoryless baseline: {facts['memoryless_baseline']:.4f}. "
        "Nothing was written."
    )
