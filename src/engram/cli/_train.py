"""``engram train`` and ``engram resume``."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from inspect import cleandoc
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, ClassVar, Union

import tyro

from engram.cli._allow import Allow
from engram.cli._console import plain
from engram.cli._model_options import check_options, flags_of, given
from engram.cli._train_flags import MachineFlags, ModelFlags, OptimiserFlags
from engram.errors import OptionError
from engram.models import model_class
from engram.probe import watch
from engram.tasks import TASKS, Task
from engram.train import (
    GROUPS,
    Budget,
    RunDirectory,
    Settings,
    allowing,
    groups_of,
    plan,
    resume,
    to_toml,
    train,
)


def _example(task: type[Task]) -> str:
    """A line that can be typed, with the first option of the task that is a number."""
    numbers = ((each.name, each.default) for each in fields(task) if type(each.default) is int)
    words = next((f" --{name.replace('_', '-')} {default}" for name, default in numbers), "")
    return f"Example: engram train {task.name} --model nnrnn --hidden 128{words}"


def _description(task: type[Task]) -> str:
    return f"{cleandoc(task.__doc__ or '')}\n\n{_example(task)}"


def _any_task(tasks: Iterable[type[Task]]) -> Any:
    """One subcommand per task. tyro takes a task with options for the first class that it is an instance of."""
    return Union[  # noqa: UP007 - made at run time
        tuple(Annotated[each, tyro.conf.subcommand(each.name, description=_description(each))] for each in tasks)
    ]


AnyTask: Any = _any_task(TASKS.values())


@dataclass(frozen=True)
class Train:
    """Train a model on a task. The run is saved as it goes and can be stopped and resumed at any instant.

    Examples:
        engram train copy --model nnrnn --hidden 128 --delay 200
        engram train psmnist --model lstm --epochs 2 --batch 100
        engram train copy --config settings.toml --lr 1e-3
        engram train copy --dry-run > settings.toml
        engram train copy --model scornn --help        (all options, those of task and model too)
    """

    options_field: ClassVar[str]
    """The field with the options of the model, in the command that is made for it."""

    task: AnyTask
    """What is learned."""
    model: ModelFlags = field(default_factory=ModelFlags)
    optimiser: OptimiserFlags = field(default_factory=OptimiserFlags)
    budget: Budget = field(default_factory=Budget)
    machine: MachineFlags = field(default_factory=MachineFlags)
    seed: int = 0
    """Of the weights, the sequences and the dropout."""
    out: Path = Path("runs")
    """The folder of runs."""
    name: str | None = None
    """The folder of this run within it; default: made of task, model and time."""
    config: Path | None = None
    """A TOML file with the groups task, model, optimiser, budget and machine. The command line overrides it."""
    allow: Allow = ()
    """A package or file whose code the file of --config may name; may be repeated."""
    dry_run: bool = False
    """Only print all settings as such a file, with parameters, time and memory from a few measured steps."""
    json: bool = False
    """Print one JSON object at the end."""

    def settings(self) -> Settings:
        """The settings that the flags and the file say."""
        groups = {name: kind(**_values(getattr(self, name), kind)) for name, kind in GROUPS.items()}
        settings = Settings(self.task, seed=self.seed, **groups)
        flags = getattr(self, self.options_field)
        beyond = {
            name: v for name, v in self.model.options.items() if name not in {each.name for each in fields(flags)}
        }
        return settings.replace(options=beyond | given(flags, model_class(self.model.name)))  # a file can say more

    def run(self) -> None:
        settings = self.settings()
        if self.dry_run:
            _show_plan(plan(settings), self.json)
        else:
            command = join(["engram", *sys.argv[1:]])
            _show_run(train(settings, self.out, self.name, show=True, command=command, observe=watch), self.json)


def train_command(model: str, task: type[Task] | None) -> type[Train]:
    """``engram train`` with the options of this model as flags."""
    settings = {each.name for kind in (Train, *GROUPS.values()) for each in fields(kind)}
    options = {each.name for each in fields(task)} if task else set()
    for name in sorted(settings & options):
        raise OptionError(
            f"the task has the option {name}, and so has every run: give the field of the task another name"
        )
    taken = settings | options
    kind = flags_of(model_class(model), taken)
    name = model_class(model).__name__  # help has it as the title of these flags
    name += "_" if name in taken else ""
    tasks = AnyTask if task is None else _any_task([task, *(each for each in TASKS.values() if each.name != task.name)])
    entries: list[Any] = [("task", tasks), (name, kind, field(default_factory=kind))]
    made: Any = make_dataclass("Train", entries, bases=(Train,), frozen=True)
    made.__doc__, made.options_field = Train.__doc__, name
    return made


def defaults(command: type[Train], task: Task, values: dict[str, Any], allow: Sequence[str] = ()) -> Train:
    """The command with the settings of a file: what the words do not say is as there."""
    groups = groups_of(values, allow)
    flags = {"model": ModelFlags, "optimiser": OptimiserFlags, "budget": Budget, "machine": MachineFlags}
    made: dict[str, Any] = {
        name: kind(**_values(groups[name], GROUPS[name])) for name, kind in flags.items() if name in groups
    }
    options = made["model"].options if "model" in made else {}
    kind: Any
    (kind,) = (each.type for each in fields(command) if each.name == command.options_field)
    if options:
        check_options(made["model"].name, options)
    known = {each.name for each in fields(kind)}
    made[command.options_field] = kind(**{name: value for name, value in options.items() if name in known})
    return command(task=task, seed=groups.get("seed", 0), **made)


def _values(flags: Any, kind: type) -> dict[str, Any]:
    return {each.name: getattr(flags, each.name) for each in fields(kind)}


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, killed or failed, as if nothing had happened.

    Example: engram resume runs/copy-nnrnn-20261115-120000
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    steps: int | None = None
    """Train a run that is done further, to this many steps in all."""
    allow: Allow = ()
    """A package or file of the run's own code, which is not imported else; may be repeated."""
    json: bool = False
    """Print one JSON object at the end."""

    def run(self) -> None:
        _show_run(resume(self.folder, steps=self.steps, show=True, observe=watch, allow=self.allow), self.json)


def _show_run(run: RunDirectory, as_json: bool) -> None:
    if as_json:
        names = ("status", "step", "parameters", "results", "best")
        print(json.dumps({"run": str(run.folder), **{name: run.facts.get(name) for name in names}}))
        return
    task, console = run.settings.task, plain()
    for split, scores in run.facts["results"].items():
        shown = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
        baseline = task.memoryless_baseline
        share = f" ({scores['loss'] / baseline:.1%} of the memoryless baseline)" if baseline else ""
        console.print(f"{split}: {shown}{share}")
    evaluate = f"engram evaluate {quote(str(run.folder))}{allowing(run.allow)}"
    console.print(f"run: {run.folder} ({evaluate} --plot draws its curves)")


def _show_plan(facts: dict[str, Any], as_json: bool) -> None:
    """The settings as a file that gives the same run, and what it would cost as comments."""
    if as_json:
        print(json.dumps(facts))
        return
    print(
        f"# engram train --config FILE trains with these settings (code of your own: --allow its file); "
        f"nothing was written.\n"
        f"# {facts['parameters']:,} parameters; {facts['steps']:,} steps of {facts['sequence_length']} time steps\n"
        f"# about {facts['seconds']:,.0f} s of training ({1000 * facts['seconds_a_step']:.1f} ms per step) "
        f"and {facts['peak_memory_mb'] or 0:,.0f} MB\n"
        f"# memoryless baseline: a loss of {facts['memoryless_baseline']:.4f}\n"
    )
    print(to_toml(facts["settings"]), end="")
