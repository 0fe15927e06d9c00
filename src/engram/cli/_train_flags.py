"""The options of ``engram train``: those of a run, of its task and of its model, and where each one goes."""

import inspect
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Group as Heading
from cyclopts import Parameter

from engram.cli._command import option
from engram.cli._docs import docs_of
from engram.cli._model_options import help_of, in_words
from engram.cli._run_words import Allow
from engram.errors import OptionError
from engram.models import default_hidden, model_class, options_of
from engram.tasks import TASKS, Task
from engram.train import FLAT, GROUPS, Group

EMPTY = inspect.Parameter.empty
RUN: dict[str, tuple[Any, Any, str]] = {
    "out": (Path, Path("runs"), "The folder of runs."),
    "name": (str | None, None, "The folder of this run within it; default: made of task, model and time."),
    "config": (
        Path | None,
        None,
        "A TOML file with the groups task, model, optimiser, budget and machine. Flags override the file.",
    ),
    "allow": (Allow, (), "A package or file whose code the file of --config may name; may be repeated."),
    "seeds": (
        int | None,
        None,
        "Train this many runs, with the seeds from --seed on, and print a table; the same command resumes them.",
    ),
    "dry_run": (
        bool,
        False,
        "Only print all settings as such a file, with parameters, time and memory from a few measured steps.",
    ),
    "find_lr": (
        bool,
        False,
        "Only suggest a learning rate: train a throw-away network at growing rates (range test, Smith 2017).",
    ),
    "lr_from": (float, 1e-6, "With --find-lr: the smallest rate."),
    "lr_to": (float, 10.0, "With --find-lr: the largest rate."),
    "lr_steps": (int, 200, "With --find-lr: the number of steps."),
    "lr_figure": (Path | None, None, "With --find-lr: the file of a figure (.svg or .png); default: none."),
    "json": (bool, False, "Print one JSON object at the end."),
}
"""The options that are of the command, not of the settings: type, default, help."""
NAMES = {("model", "name"): "model", ("optimiser", "name"): "optimizer", ("optimiser", "groups"): "group"}
HELP = {
    "model": "A name of engram list models, which may stand after TASK too; or file.py:Class, package.module:Class.",
    "group": 'A rate and a decay for the parameters whose names match: "head.* lr=1e-4 decay=0"; may be repeated.',
}


@dataclass
class Flags:
    """Parameters for cyclopts, and for each the place of its value in the settings, such as ("model", "hidden")."""

    parameters: list[inspect.Parameter] = field(default_factory=list)
    places: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, place: tuple[str, str], parameter: inspect.Parameter) -> None:
        self.parameters.append(parameter)
        self.places[parameter.name] = place


def flags_of(task: type[Task] | None, model: str, values: dict[str, Any], two_words: bool = False) -> Flags:
    """All options for this task and this model; the defaults that are shown are those of a settings file.

    Args:
        task: None if the words name none: then help shows the options that all tasks have.
        model: its name.
        values: the groups of the settings file.
        two_words: whether the model is named after the task, without --model.
    """
    flags = Flags()
    said = Parameter(name="TASK", metavar="TASK", help=f"What is learned: {', '.join(TASKS)}.", show_default=False)
    alone = inspect.Parameter.POSITIONAL_ONLY
    default = values.get("task", {}).get("name", EMPTY)  # a file may name it
    flags.add(("task", "name"), inspect.Parameter("task", alone, annotation=Annotated[str, said], default=default))
    if two_words:
        said = Parameter(name="MODEL", metavar="MODEL", help="The same as --model.", show_default=False)
        flags.add(
            ("model", "name"), inspect.Parameter("core", alone, annotation=Annotated[str | None, said], default=None)
        )
    if task is not None:
        add_task(flags, task, values.get("task", {}))
    width = task.widths.get(model) if task is not None else None
    own: dict[str, dict[str, Any]] = {"model": {"hidden": width or default_hidden(model_class(model))}}
    for name, value in (task.defaults if task is not None else {}).items():
        group, each = FLAT[name]
        own.setdefault(group, {})[each] = value
    for group, kind in GROUPS.items():
        _add_group(flags, group, kind, own.get(group, {}) | values.get(group, {}))
    heading = Heading("Run", sort_key=9)
    seed = values.get("seed", 0)
    flags.add(("", "seed"), option("seed", int, seed, "Random seed for weights, data and dropout.", group=heading))
    for name, (hint, default, text) in RUN.items():
        flags.add(("run", name), option(name, hint, default, text, group=heading))
    _check_names(task, flags)
    _add_model(flags, model, values.get("model", {}).get("options", {}))
    return flags


def add_task(flags: Flags, task: type[Task], values: dict[str, Any]) -> None:
    """The options of a task, under a heading of their own; ``values`` are those of a settings file."""
    heading, texts, hints = Heading(f"Task {task.name}", sort_key=1), docs_of(task), get_type_hints(task)
    for each in fields(task):
        default = values.get(each.name, EMPTY if each.default is MISSING else each.default)
        said = option(each.name, hints[each.name], default, texts.get(each.name, ""), group=heading, pair=True)
        flags.add(("task", each.name), said)


def _add_group(flags: Flags, group: str, kind: type, values: dict[str, Any]) -> None:
    heading = Heading(group.capitalize(), sort_key=2 + list(GROUPS).index(group))
    texts, hints = docs_of(kind), get_type_hints(kind)
    for each in fields(kind):
        if (group, each.name) == ("model", "options"):
            continue
        name = NAMES.get((group, each.name), each.name)
        hint: Any = hints[each.name]
        if name == "group":
            hint = Annotated[
                tuple[str, ...], Parameter(metavar='"PATTERN lr=RATE decay=DECAY"', consume_multiple=False)
            ]
        default = values.get(each.name, each.default)
        text = HELP.get(name, texts.get(each.name, ""))
        flags.add((group, each.name), option(name, hint, default, text, group=heading, pair=True))


def _add_model(flags: Flags, model: str, values: dict[str, Any]) -> None:
    """One whose name is another flag's is ``--model-NAME``."""
    kind = model_class(model)
    heading, texts = Heading(f"Options of {kind.__name__}", sort_key=2.5), help_of(kind)
    for name, each in options_of(kind).items():
        hint = in_words(each)
        if hint is None:
            continue
        own = f"model_{name}" if name in flags.places else name
        text, default = texts.get(name, f"See the class {kind.__name__}."), values.get(name, each.default)
        flags.add(("options", name), option(own, hint, default, text, group=heading, pair=True))


def _check_names(task: type[Task] | None, flags: Flags) -> None:
    names = [each.name for each in flags.parameters]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise OptionError(
            f"the task has the option {name}, and so has every run: give the field of the task another name"
        )


def read_groups(texts: Iterable[str]) -> tuple[Group, ...]:
    """What ``--group`` says, each time it is given."""
    return tuple(Group.read(text) for text in texts)
