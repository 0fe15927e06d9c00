"""What the tasks share that show symbols, wait, and ask for them in order."""

import math
from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_size
from engram.tasks._score import accuracy, cross_entropy, cross_entropy_of_each
from engram.tasks._task import Batch, Task

BLANK = 0


class Recall(Task):
    """T = delay + 2S steps: the targets are the blank 0, and at the last S steps the S symbols, out of 1..n.

    Inputs ``(T, B, D)`` one-hot, targets ``(T, B)`` classes. Trained at every step, judged by the symbols.
    """

    delay: int
    length: int
    symbols: int

    @property
    def steps(self) -> int:
        return self.delay + 2 * self.length

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    @property
    def memoryless_baseline(self) -> float:
        """Sure of the blanks, uniform over the symbols after them: S ln n / (delay + 2S)."""
        return self.length * math.log(self.symbols) / self.steps

    @abstractmethod
    def show(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """What a sequence ``(T, B)`` shows, for these symbols ``(S, B)``."""

    def blanks(self, batch_size: int) -> Tensor:
        """``(T, B)``, nothing shown yet."""
        return torch.full((self.steps, batch_size), BLANK)

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        shape = (self.length, check_size("batch_size", batch_size))
        symbols = torch.randint(1, self.symbols + 1, shape, generator=generator)
        shown, targets = self.show(symbols, generator), self.blanks(batch_size)
        targets[-self.length :] = symbols
        return Batch(F.one_hot(shown, self.input_size).float(), targets, targets != BLANK)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, averaged over all steps."""
        return cross_entropy(outputs, batch)

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy_of_each(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the symbols that are recalled; above 0.99 counts as solved."""
        return {"accuracy": accuracy(outputs, batch)}
