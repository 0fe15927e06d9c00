"""The denoise problem: find the symbols among blanks, hold them, and give them in order."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import check_size
from engram.tasks._recall import Recall

MARKER = 10


@dataclass(frozen=True)
class Denoise(Recall):
    """S symbols out of 8 stand anywhere among blanks; after the marker, give them in order.

    They take S distinct places, uniform among the first delay + S - 1 steps; the marker follows, then S blanks.
    Inputs ``(T, B, 11)`` one-hot (blank 0, symbols 1..8, marker 10; token 9 never occurs), targets ``(T, B)`` of 10
    classes (class 9 never occurs), T = delay + 2S. Source: Jing et al. 2019; Kerg (2022), Section 4.6.1.
    """

    delay: int = 100
    """The number of blanks among the symbols, plus one."""
    length: int = 10
    """S, the symbols to remember."""

    name: ClassVar[str] = "denoise"
    source: ClassVar[str] = "Jing et al. 2019; Kerg et al. 2020"
    symbols: ClassVar[int] = 8  # type: ignore[misc]
    input_size = symbols + 3
    output_size = symbols + 2

    def __post_init__(self) -> None:
        check_size("delay", self.delay)
        check_size("length", self.length)

    def show(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        marker, batch_size = self.steps - self.length - 1, symbols.shape[1]
        lots = torch.rand(marker, batch_size, dtype=torch.float64, generator=generator)
        places = lots.argsort(dim=0, stable=True)[: self.length].sort(0).values
        shown = self.blanks(batch_size).scatter_(0, places, symbols)
        shown[marker] = MARKER
        return shown
