"""The tasks by the names the command line takes."""

from dataclasses import fields
from typing import Any

from engram.errors import unknown
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
    )
}


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
