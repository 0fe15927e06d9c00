"""The transfer copying problem: learn a short wait, be tested on longer ones."""

from dataclasses import dataclass
from typing import ClassVar

from engram.errors import DTypeError, check_size
from engram.tasks._copy import Copy
from engram.tasks._task import Task


@dataclass(frozen=True)
class TransferCopy(Copy):
    """Copy symbols after a delay of 100 steps, and be tested on longer delays without further training.

    Inputs, targets and layout are those of :class:`Copy`. Source: Kerg (2022), Section 4.6.1.
    """

    delay: int = 100
    """Steps from the last symbol to the first answer in training."""
    tests: tuple[int, ...] = (200, 400, 2000, 5000)
    """The delays of the further tests."""

    name: ClassVar[str] = "transfer-copy"
    source: ClassVar[str] = "Kerg et al. 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tests, tuple | list):
            raise DTypeError(f"tests must be several delays, such as (200, 400), got {self.tests!r}")
        object.__setattr__(self, "tests", tuple(self.tests))  # a settings file gives a list
        for delay in self.tests:
            check_size("each of tests", delay)

    def exams(self) -> dict[str, Task]:
        """The task itself as ``test``, and one ``test-<delay>`` for each longer delay."""
        longer: dict[str, Task] = {f"test-{delay}": Copy(delay, self.length, self.layout) for delay in self.tests}
        return {"test": self, **longer}
