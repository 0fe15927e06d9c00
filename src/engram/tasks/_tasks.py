"""The tasks by the names the command line takes."""

from dataclasses import fields
from typing import Any

from engram.errors import unknown
from engram.tasks._copy import Copy
from engram.tasks._task import Task

TASKS: dict[str, type[Task]] = {task.name: task for task in (Copy,)}


def make_task(name: str, **options: Any) -> Task:
    """A task by name.

    >>> make_task("copy", delay=50).steps
    70
    """
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    known = [field.name for field in fields(TASKS[name])]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    return TASKS[name](**options)
