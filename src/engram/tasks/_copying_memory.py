"""The copying memory problem with any alphabet: how many bits over how long a delay."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_size
from engram.tasks._score import accuracy, cross_entropy
from engram.tasks._task import Batch, Task

BLANK = 0


@dataclass(frozen=True)
class CopyingMemory(Task):
    """Show m symbols out of n, wait B steps, and ask for them from the trigger on (spec/arithmetic-circuits.md 2.1).

    With m = 3 and B = 5: ``ABA_____:__`` asks for ``________ABA``; a network holds m log2(n) bits for m + B steps.
    Inputs ``(T, B, n+2)`` one-hot (blank 0, symbols 1..n, trigger n+1), targets ``(T, B)`` of n+2 classes, T = B + 2m.
    """

    delay: int = 100
    """B, the blanks between the last symbol and the trigger; 0 asks at once."""
    length: int = 10
    """m, the symbols to remember."""
    symbols: int = 8
    """n, the symbols to choose from."""

    name: ClassVar[str] = "copying-memory"
    source: ClassVar[str] = "Ziv 2019, after Levine et al. 2017"

    def __post_init__(self) -> None:
        check_size("delay", self.delay, least=0)
        check_size("length", self.length)
        check_size("symbols", self.symbols, least=2)

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols + 2

    @property
    def steps(self) -> int:
        return self.delay + 2 * self.length

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    @property
    def memoryless_baseline(self) -> float:
        """Blank where blank is due, uniform over the symbols after: m ln n / (B + 2m)."""
        return self.length * math.log(self.symbols) / self.steps

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        data = torch.randint(1, self.symbols + 1, (self.length, batch_size), generator=generator)
        shown = torch.full((self.steps, batch_size), BLANK)
        shown[: self.length] = data
        shown[-self.length] = self.symbols + 1
        targets = torch.full((self.steps, batch_size), BLANK)
        targets[-self.length :] = data
        return Batch(F.one_hot(shown, self.input_size).float(), targets, targets != BLANK)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, averaged over all steps."""
        return cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the m symbols that are recalled; above 0.99 counts as solved."""
        return {"accuracy": accuracy(outputs, batch)}
