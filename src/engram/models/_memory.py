"""Networks that no memory of this machine can hold are refused before they are made."""

from math import prod
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from engram.places import NUMBER, check_fits, free_memory


class WithinMemory(TorchDispatchMode):
    """A block in which torch makes no tensor that does not fit into the memory that is free at that moment.

    Small ones are counted together, up to 64 MB: weights that were made before have already taken their part. That a
    system lets a program have memory it has not got, and kills it later, does not help.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.asked += _size(func, args)
        if self.asked * NUMBER > 64e6:
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
