"""The tasks by the names the command line takes."""

from dataclasses import fields
from typing import Any

from engram.errors import EngramError, OptionError, unknown
from engram.imports import is_outside, load_class, name_of
from engram.tasks._adding import Adding
from engram.tasks._contractive import ContractiveSystem
from engram.tasks._copy import Copy
from engram.tasks._copying_memory import CopyingMemory
from engram.tasks._denoise import Denoise
from engram.tasks._lag_copy import LagCopy
from engram.tasks._parity import Parity
from engram.tasks._patches import MNISTPatches
from engram.tasks._pautomac import PAutomaC
from engram.tasks._pixels import PermutedMNIST, PixelMNIST
from engram.tasks._shakespeare import TinyShakespeare
from engram.tasks._sinus import CopySinus, Sinus
from engram.tasks._start_end import StartEnd
from engram.tasks._task import Task
from engram.tasks._text import PennTreebank
from engram.tasks._transfer_copy import TransferCopy
from engram.tasks.relational import (
    Comparison,
    Distribution3,
    DistributionN,
    IdentityRules,
    IdentityRules4,
    RelationalGame,
    RelationalMatch,
    RelationalMatch3,
    SameDifferent,
    SameDifferent6,
    Separated,
    TransitiveComparison,
)

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        Copy,
        CopyingMemory,
        TransferCopy,
        Denoise,
        Adding,
        StartEnd,
        LagCopy,
        Sinus,
        CopySinus,
        Parity,
        ContractiveSystem,
        PixelMNIST,
        PermutedMNIST,
        MNISTPatches,
        PennTreebank,
        TinyShakespeare,
        PAutomaC,
        SameDifferent,
        RelationalMatch,
        Distribution3,
        IdentityRules,
        RelationalMatch3,
        SameDifferent6,
        IdentityRules4,
        DistributionN,
        Separated,
        Comparison,
        TransitiveComparison,
        RelationalGame,
    )
}


def task_class(name: str) -> type[Task]:
    """The class of a task of this name; one outside engram is imported."""
    if name in TASKS:
        return TASKS[name]
    if name.endswith(".py"):
        raise OptionError(f"a task in a file is named with its class, {name}:MyTask")
    if not is_outside(name):
        raise unknown("task", name, TASKS)
    return load_class(name, Task)  # type: ignore[type-abstract]


def make_task(name: str, **options: Any) -> Task:
    """A task by name: one of :data:`TASKS`, or ``package.module:Class`` or ``file.py:Class``, which is imported.

    >>> make_task("copy", delay=50).steps
    70
    """
    kind = task_class(name)
    known = [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    try:
        return kind(**options)
    except TypeError as error:
        if isinstance(error, EngramError):
            raise
        raise OptionError(f"task {name}: {error}") from error  # an option without a default, or an abstract class


def task_name(task: Task) -> str:
    """The name by which :func:`make_task` makes such a task.

    >>> task_name(Copy(delay=50))
    'copy'
    """
    return task.name if TASKS.get(task.name) is type(task) else name_of(type(task))
