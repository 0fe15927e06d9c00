"""Ctrl-C between two steps, not within one."""

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Asked(KeyboardInterrupt):
    """Ctrl-C where nothing is half done."""


class Interrupt:
    """A block in which Ctrl-C (or SIGTERM) only asks to stop; a second one stops at once.

    With several processes, all ask the first one, so that they stop at the same step; the process that started them
    asks by the shared flag ``stop``.
    """

    def __init__(self, fabric: "Fabric", stop: Tensor | None = None) -> None:
        self.fabric, self.stop, self.asked = fabric, stop, False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there signals can be caught
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def agree(self, wish: bool) -> bool:
        """What the first process wishes."""
        return wish if self.fabric.world_size == 1 else bool(self.fabric.broadcast(wish))

    def check(self, *_: object) -> None:
        """Leave here if asked to."""
        if self.agree(self.asked or (self.stop is not None and bool(self.stop))):
            raise Asked
