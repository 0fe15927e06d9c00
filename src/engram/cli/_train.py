"""``engram train``."""

import json
import sys
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import cleandoc
from pathlib import Path
from shlex import join
from typing import Any

from cyclopts import App

from engram.cli._command import empty_app
from engram.cli._find_lr import FindLr
from engram.cli._model_options import changed, check_options
from engram.cli._settings_file import overridden, read_settings
from engram.cli._show_run import show_run
from engram.cli._sweep_run import engine_for, run_plan
from engram.cli._sweep_show import show_plan
from engram.cli._train_flags import Flags, flags_of, read_groups
from engram.cli._train_words import Named, names_in, same
from engram.errors import OptionError, check_size
from engram.imports import check_allowed, is_outside
from engram.models import model_class
from engram.probe import watch
from engram.sweep import estimate, plan_of_seeds, read_results
from engram.tasks import TASKS, Task, make_task, task_class, task_name
from engram.train import FLAT, Settings, groups_of, plan, to_toml, train


@dataclass(frozen=True)
class Train:
    """Train a model on a task. The run is saved as it goes and can be stopped and resumed at any instant.

    Examples:
        engram train copy --model nnrnn --hidden 128 --delay 200
        engram train identity-rules --model corelnet --holdout 95
        engram train psmnist --model lstm --epochs 2 --batch 100
        engram train copy --config settings.toml --lr 1e-3
        engram train copy --dry-run > settings.toml
        engram train copy --model lstm --seeds 5     (five runs and a table)
        engram train copy --model lstm --find-lr     (only suggest a rate)
        engram train copy --model scornn --help      (their own options too)
    """

    settings: Settings
    out: Path = Path("runs")
    name: str | None = None
    seeds: int | None = None
    dry_run: bool = False
    json: bool = False
    find_lr: FindLr | None = None

    def run(self) -> None:
        if self.find_lr is not None:
            self.find_lr.run(self.settings, self.json)
        elif self.seeds is not None:
            _train_seeds(self)
        elif self.dry_run:
            _show_plan(plan(self.settings), self.json)
        else:
            command = join(["engram", *sys.argv[1:]])
            show_run(train(self.settings, self.out, self.name, show=True, command=command, observe=watch), self.json)


def train_app(name: str, words: list[str]) -> App:
    """The command with the options of the task and the model that the words, or the file after --config, name."""
    if "--option" in words:
        raise OptionError("options of a model are flags: --activation relu; in a file they are under [model.options]")
    named = names_in(words)
    values = read_settings(named.config, named.allow) if named.config is not None else {}
    task = _task_of(named, values, is_help=bool({"-h", "--help"} & {*words}))
    in_file = values.get("model", {}).get("name", "exprnn")
    model = named.model or in_file
    if not same(model, in_file):  # the options are another model's
        values["model"] = {key: value for key, value in values.get("model", {}).items() if key != "options"}
    if options := values.get("model", {}).get("options"):
        check_options(model, options)
    flags = flags_of(task, model, values, two_words=named.second is not None)
    text = Train.__doc__ if task is None else f"{cleandoc(task.__doc__ or '')}\n\n{_example(task)}"
    return empty_app(name, text or "", partial(_made, values, model, flags, named), flags.parameters)


def _task_of(named: Named, values: dict[str, Any], is_help: bool) -> type[Task] | None:
    """The task that words or file name; ``values["task"]`` becomes its name and its options in the file."""
    in_file = values.get("task", {})
    name = named.task
    if name is None and "name" in in_file:
        name = str(in_file["name"])  # a file's word, not a person's
        check_allowed(name, named.allow)
    if name is None:
        if is_help:
            return None
        raise OptionError(f"engram train needs a task, one of: {', '.join(TASKS)}. See engram list tasks")
    options = in_file if same(in_file.get("name", name), name) else {}
    values["task"] = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    values["task"]["name"] = name
    return task_class(name)


def _made(values: dict[str, Any], model: str, flags: Flags, named: Named, /, *task: str, **given: Any) -> Train:
    """The command from what was given, over the file."""
    if given.get("steps") is not None and given["steps"] < 1:
        raise OptionError(f"--steps must be at least 1, got {given['steps']}; --dry-run shows a run without training")
    if named.second is not None and not same(named.second, model):
        raise OptionError(f"the model is named twice, {named.second} and --model {model}: leave one of them out")
    values = overridden(values, {*given})
    task_kind = task_class(values["task"]["name"])
    for name, value in task_kind.defaults.items():
        group, own = FLAT[name]
        values.setdefault(group, {}).setdefault(own, value)
    if model in task_kind.widths:
        values.setdefault("model", {}).setdefault("hidden", task_kind.widths[model])
    run: dict[str, Any] = {}
    options = dict(values.get("model", {}).get("options", {}))
    for name, value in given.items():
        group, own = flags.places[name]
        value = read_groups(value) if (group, own) == ("optimiser", "groups") else value
        if group == "":
            values[own] = value
        else:
            place = {"run": run, "options": options}.get(group)
            (values.setdefault(group, {}) if place is None else place)[own] = value
    values.setdefault("model", {}).update(name=model, options=changed(options, model_class(model)))
    chosen = values.pop("task")
    kind = make_task(chosen.pop("name"), **chosen)
    settings = Settings(kind, **groups_of(values, named.allow))
    run = {name: value for name, value in run.items() if name not in ("config", "allow")}
    return Train(settings, find_lr=FindLr.of(run), **run)


def _train_seeds(train: Train) -> None:
    """The shortest sweep. Its folder is named by the settings, so that the same words go on with it."""
    settings, count = train.settings, check_size("seeds", train.seeds, most=100_000)
    sweep = plan_of_seeds(settings, range(settings.seed, settings.seed + count), train.name or "")
    label = f"{settings.task.name}-{settings.model.label}-seeds-{sweep.runs[0].identity[:8]}"
    sweep = replace(sweep, name=train.name or label)
    folder = train.out / sweep.name
    workers = min(count, engine_for(sweep, folder).slots)
    if train.dry_run:
        left = estimate(sweep, read_results(sweep, folder))
        show_plan(sweep, folder, left, workers, train.json, every=True)
        return
    code = tuple(each for each in (*settings.model.outside, task_name(settings.task)) if is_outside(each))  # typed
    run_plan(sweep, folder, engine_for(sweep, folder, workers), code, train.json)


def _example(task: type[Task]) -> str:
    """A line that can be typed, with the first option of the task that is a number."""
    numbers = ((each.name, each.default) for each in fields(task) if type(each.default) is int)
    words = next((f" --{name.replace('_', '-')} {default}" for name, default in numbers), "")
    return f"Example: engram train {task.name} --model nnrnn --hidden 128{words}"


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
