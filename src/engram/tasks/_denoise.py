"""The denoise problem: find the symbols among blanks, hold them, and give them in order."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_size
from engram.tasks._score import accuracy, cross_entropy
from engram.tasks._task import Batch, Task

SYMBOLS, BLANK, MARKER = 8, 0, 10


@dataclass(frozen=True)
class Denoise(Task):
    """S symbols out of 8 stand anywhere among blanks; after the marker, give them in order (spec/attention.md 4).

    They take S distinct places, uniform among the first delay + S - 1 steps; the marker follows, then S blanks.
    Inputs ``(T, B, 11)`` one-hot (blank 0, symbols 1..8, marker 10; token 9 never occurs), targets ``(T, B)`` of 10
    classes (class 9 never occurs), T = delay + 2S.
    """

    delay: int = 100
    """The number of blanks among the symbols, plus one."""
    length: int = 10
    """S, the symbols to remember."""

    name: ClassVar[str] = "denoise"
    source: ClassVar[str] = "Jing et al. 2019; Kerg et al. 2020"
    input_size = SYMBOLS + 3
    output_size = SYMBOLS + 2
    chance = 1 / SYMBOLS

    def __post_init__(self) -> None:
        check_size("delay", self.delay)
        check_size("length", self.length)

    @property
    def steps(self) -> int:
        return self.delay + 2 * self.length

    @property
    def memoryless_baseline(self) -> float:
        """Blank where blank is due, uniform over the symbols after: S ln 8 / (delay + 2S)."""
        return self.length * math.log(SYMBOLS) / self.steps

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        symbols = torch.randint(1, SYMBOLS + 1, (self.length, batch_size), generator=generator)
        marker = self.steps - self.length - 1
        lots = torch.rand(marker, batch_size, dtype=torch.float64, generator=generator)
        places = lots.argsort(dim=0, stable=True)[: self.length].sort(0).values
        shown = torch.full((self.steps, batch_size), BLANK).scatter_(0, places, symbols)
        shown[marker] = MARKER
        targets = torch.full((self.steps, batch_size), BLANK)
        targets[-self.length :] = symbols
        return Batch(F.one_hot(shown, self.input_size).float(), targets, targets != BLANK)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, averaged over all steps."""
        return cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the symbols that are recalled."""
        return {"accuracy": accuracy(outputs, batch)}
