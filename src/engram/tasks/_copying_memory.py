"""The copying memory problem with any alphabet: how many bits over how long a delay."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import check_size
from engram.tasks._recall import Recall


@dataclass(frozen=True)
class CopyingMemory(Recall):
    """Show m symbols out of n, wait B steps, and ask for them from the trigger on.

    With m = 3 and B = 5: ``ABA_____:__`` asks for ``________ABA``; a network holds m log2(n) bits for m + B steps.
    Inputs ``(T, B, n+2)`` one-hot (blank 0, symbols 1..n, trigger n+1), targets ``(T, B)`` of n+2 classes, T = B + 2m.
    Source: Ziv (2019), Section 3.1, after Levine et al. 2017.
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

    def show(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        shown = self.blanks(symbols.shape[1])
        shown[: self.length] = symbols
        shown[-self.length] = self.symbols + 1
        return shown
