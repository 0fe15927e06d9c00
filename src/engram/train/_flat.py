"""Settings by the names of the flags of ``engram train``: one dictionary without groups, as sweep files have it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from engram.errors import DTypeError, OptionError, unknown
from engram.imports import check_allowed
from engram.models import model_class, options_of
from engram.tasks import TASKS, make_task, task_class
from engram.train._settings import FLAT, Settings


def settings_from_flat(values: Mapping[str, Any], allow: Sequence[str] = ()) -> Settings:
    """Settings of one dictionary: ``{"task": "copy", "delay": 200, "model": "lstm", "hidden": 64, "lr": 1e-3}``.

    A name is a setting (``hidden``, ``lr``, ``seed``), an option of the task (``delay``) or one of the model
    (``activation``; ``model_NAME`` where task or settings have a ``NAME`` too). Lists become tuples.

    Args:
        values: names and values; hyphens and underscores are alike.
        allow: packages and files of code outside engram that the names ``task`` and ``model`` may stand for.
    """
    given = {name.replace("-", "_"): _tuples(value) for name, value in values.items()}
    task_name, model = given.pop("task", None), given.pop("model", "exprnn")
    if not isinstance(task_name, str):
        raise OptionError(f"settings need a task, one of {', '.join(TASKS)}; got {task_name!r}")
    if not isinstance(model, str):
        raise DTypeError(f"model must be a name such as exprnn or file.py:Class, got {model!r:.60}")
    for name in (task_name, model):
        check_allowed(name, allow)
    of_task = {each.name for each in fields(task_class(task_name))}
    of_model = {_flat_name(name, of_task): name for name in options_of(model_class(model))}
    settings: dict[str, Any] = {}
    options = given.pop("options", {})
    if not isinstance(options, Mapping):
        raise DTypeError(f"options must be a table of options of the model, got {options!r:.60}")
    options = dict(options)
    task: dict[str, Any] = {}
    for name, value in given.items():
        if name in FLAT or name == "seed":
            settings[name] = value
        elif name in of_task:
            task[name] = value
        elif name in of_model:
            options[of_model[name]] = value
        else:
            known = ["task", "model", "seed", *FLAT, *of_task, *of_model]
            raise unknown(f"setting of {model_label(model)} on {task_name}", name, known)
    return Settings.of(make_task(task_name, **task), model, options=options, **settings)


def model_label(model: str) -> str:
    """A short name of a model."""
    return model.rpartition(":")[2]


def _flat_name(option: str, of_task: set[str]) -> str:
    """One whose name is another setting's has ``model_`` in front, as on the command line."""
    return f"model_{option}" if option in FLAT or option in of_task or option == "seed" else option


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
