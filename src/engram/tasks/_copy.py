"""The copying problem: repeat a short string of symbols after a long wait."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.errors import check_choice, check_size
from engram.tasks._recall import Recall


@dataclass(frozen=True)
class Copy(Recall):
    """Show S symbols out of 8, wait, show a cue, and ask for the symbols in order.

    The input is one-hot of size 10 (blank 0, symbols 1..8, cue 9), the target one of 9 classes; length delay + 2S.
    Source: Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016; Kerg (2022), Appendix A.1.1.
    """

    delay: int = 200
    """Steps from the last symbol to the first answer."""
    length: int = 10
    """S, the symbols to remember."""
    layout: Literal["after", "at"] = "after"
    """The answer starts the step after the cue (nnRNN, scoRNN) or at the cue (uRNN, expRNN)."""

    name: ClassVar[str] = "copy"
    source: ClassVar[str] = "Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016"
    symbols: ClassVar[int] = 8  # type: ignore[misc]
    input_size = symbols + 2  # blank, symbols, cue
    output_size = symbols + 1

    def __post_init__(self) -> None:
        check_size("delay", self.delay)
        check_size("length", self.length)
        check_choice("layout", self.layout, ("after", "at"))

    def show(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        shown = self.blanks(symbols.shape[1])
        shown[: self.length] = symbols
        shown[self.steps - self.length - (self.layout == "after")] = self.symbols + 1
        return shown
