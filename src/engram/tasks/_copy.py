"""The copying problem: repeat a short string of symbols after a long wait."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice, check_size
from engram.tasks._score import accuracy, cross_entropy
from engram.tasks._task import Batch, Task

SYMBOLS, BLANK = 8, 0


@dataclass(frozen=True)
class Copy(Task):
    """Show S symbols out of 8, wait, show a cue, and ask for the symbols in order (spec/spectral.md 6.1).

    The input is one-hot of size 10 (blank 0, symbols 1..8, cue 9), the target one of 9 classes; length delay + 2S.
    """

    delay: int = 200
    """Steps from the last symbol to the first answer."""
    length: int = 10
    """S, the symbols to remember."""
    layout: Literal["after", "at"] = "after"
    """The answer starts the step after the cue (nnRNN, scoRNN) or at the cue (uRNN, expRNN)."""

    name: ClassVar[str] = "copy"
    source: ClassVar[str] = "Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016"
    input_size = SYMBOLS + 2  # blank, symbols, cue
    output_size = SYMBOLS + 1
    chance = 1 / SYMBOLS

    def __post_init__(self) -> None:
        check_size("delay", self.delay)
        check_size("length", self.length)
        check_choice("layout", self.layout, ("after", "at"))

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
        shown = torch.full((self.steps, batch_size), BLANK)
        shown[: self.length] = symbols
        shown[self.steps - self.length - (self.layout == "after")] = SYMBOLS + 1
        targets = torch.full((self.steps, batch_size), BLANK)
        targets[-self.length :] = symbols
        return Batch(F.one_hot(shown, self.input_size).float(), targets, targets != BLANK)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, averaged over all steps."""
        return cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the symbols that are recalled."""
        return {"accuracy": accuracy(outputs, batch)}
