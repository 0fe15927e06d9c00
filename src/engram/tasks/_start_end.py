"""Start-end similarity: compare a string with another that comes half a sequence later."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.tasks._score import accuracy, masked_cross_entropy
from engram.tasks._task import Batch, Task

CLASSES = 3


@dataclass(frozen=True)
class StartEnd(Task):
    """Two strings of m symbols, T/2 steps apart: do none (0), half (1) or all (2) of the m pairs agree?

    Of class c, k = round(c m / 2) pairs at random places agree and all others differ; a half is rounded to the even
    number (Python's round: k = 2 for m = 3 and for m = 5). The first string starts at t, uniform in 0..T/2-m-1, the
    second at t + T/2; all else is blank. With T = 2m the strings fill the sequence and there is no blank symbol.
    Inputs ``(T, B, n+1)`` one-hot (blank 0, symbols 1..n), or ``(T, B, n)`` (symbols 0..n-1) if T = 2m; targets
    ``(1, B)``. Source: Ziv (2019), Section 3.2, after Levine et al. 2017.
    """

    length: int = 100
    """T, the steps; even."""
    data: int = 10
    """m, the symbols in a string."""
    symbols: int = 8
    """n, the symbols to choose from."""

    name: ClassVar[str] = "start-end"
    source: ClassVar[str] = "Ziv 2019, after Levine et al. 2017"
    answer: ClassVar[Literal["every", "last"]] = "last"
    output_size = CLASSES
    chance = 1 / CLASSES
    memoryless_baseline = math.log(CLASSES)

    def __post_init__(self) -> None:
        check_size("data", self.data, least=2)  # of one pair, a half cannot agree
        check_size("symbols", self.symbols, least=2)
        if check_size("length", self.length) % 2:
            raise OptionError(f"length must be even, because the strings are half of it apart, got {self.length}")
        if self.length < 2 * self.data:
            raise OptionError(f"length must be at least {2 * self.data}, to hold 2 x data, got {self.length}")

    @property
    def blank(self) -> bool:
        """Whether there is a blank symbol."""
        return self.length > 2 * self.data

    @property
    def input_size(self) -> int:
        return self.symbols + self.blank

    @property
    def steps(self) -> int:
        return self.length

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        shape, half = (self.data, batch_size), self.length // 2
        classes = torch.randint(0, CLASSES, (1, batch_size), generator=generator)
        same = torch.tensor([round(c * self.data / 2) for c in range(CLASSES)])[classes]
        rank = torch.rand(shape, dtype=torch.float64, generator=generator).argsort(dim=0, stable=True)
        first = torch.randint(0, self.symbols, shape, generator=generator)
        other = first + torch.randint(1, self.symbols, shape, generator=generator)
        second = torch.where(rank < same, first, other % self.symbols)
        start = torch.randint(0, max(half - self.data, 1), (1, batch_size), generator=generator)
        places = start + torch.arange(self.data)[:, None]
        strings = torch.cat([first, second]) + int(self.blank)
        shown = torch.zeros(self.length, batch_size, dtype=torch.long)
        shown.scatter_(0, torch.cat([places, places + half]), strings)
        return Batch(F.one_hot(shown, self.input_size).float(), classes, torch.ones_like(classes, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy at the last step."""
        return masked_cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the sequences told right; above 0.99 counts as solved."""
        return {"accuracy": accuracy(outputs, batch)}
