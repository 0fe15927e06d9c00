"""Networks and batches that no memory of this machine can hold are refused before they are made."""

from math import prod
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from engram.errors import OptionError
from engram.places import free_memory
from engram.tasks._batches import BLOCK
from engram.train._settings import Settings

BYTES = 4
"""Of a number in float32, the smallest that a run computes with."""


class WithinMemory(TorchDispatchMode):
    """A block in which torch makes no tensor that does not fit into the memory that is free at that moment.

    Small ones are counted together, up to 64 MB: weights that were drawn before have already taken their part. That a
    system lets a program have memory it has not got, and kills it later, does not help.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.asked += _size(func, args)
        if self.asked * BYTES > 64e6:
            check_fits("a weight of the network", self.asked, free_memory(), "hidden units or layers")
            self.asked = 0
        return func(*args, **(kwargs or {}))


def _size(func: Any, args: tuple[Any, ...]) -> int:
    """How many numbers a torch operation is asked to make, where it is told so, as in torch.zeros(3, 4)."""
    if func.is_view:
        return 0
    name = func.overloadpacket.__name__
    if name == "eye":
        return int(args[0] * args[-1])
    if name in ("arange", "randperm"):
        return max(0, *(int(arg) for arg in args[:2]))
    names = [argument.name for argument in func._schema.arguments[:2]]
    return prod(args[names.index("size")]) if "size" in names else 0


def check_fits(what: str, numbers: int, free: float, smaller: str) -> None:
    """Refuse so many numbers if they need more than ``free`` MB."""
    need = BYTES * numbers // 10**6
    if need > free:
        raise OptionError(
            f"{what} needs {need:,} MB or more ({numbers:,} numbers), and {free:,.0f} MB are free: "
            f"choose fewer {smaller}"
        )


def check_batches(settings: Settings) -> None:
    """Refuse batches too large for the memory: their inputs, and their outputs where every step has one.

    A data set is as large as it is, and a batch is at most all of it.
    """
    for task in (settings.task, *settings.task.exams().values()):
        if not task.is_data_set:
            sequences = max(settings.budget.batch, settings.budget.samples, BLOCK)  # samples are kept, not drawn again
            features = task.input_size + (task.output_size if task.answer == "every" else 0)
            check_fits("a batch", task.steps * sequences * features, free_memory(), "sequences or shorter ones")
