"""Tiny Shakespeare in short chunks."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size
from engram.tasks._batches import Batches, Indexed
from engram.tasks._data import read
from engram.tasks._seeds import seeded
from engram.tasks._symbols import SymbolTask
from engram.tasks._task import Batch
from engram.tasks._text import characters, encoded, predict_next

READ = 1_003_854
"""Characters that are used: the first 90 %."""


@lru_cache
def shakespeare() -> tuple[Tensor, bytes]:
    """The whole text as numbers, and the alphabet: its 65 bytes, sorted."""
    text = np.frombuffer(read("tinyshakespeare/input.txt"), np.uint8)
    alphabet = bytes(np.unique(text))
    return encoded(text, alphabet), alphabet


@lru_cache
def chunks(length: int) -> dict[str, Tensor]:
    """Chunks ``(N, length)`` by split: 80, 10 and 10 % of them, sampled once with a fixed seed."""
    whole = shakespeare()[0][: READ // length * length].view(-1, length)
    count = len(whole)
    order = torch.randperm(count, generator=seeded("shakespeare", length))
    parts = order.split([count * 8 // 10, count // 10, count - count * 8 // 10 - count // 10])
    return {split: whole[part] for split, part in zip(("train", "valid", "test"), parts, strict=True)}


@dataclass(frozen=True)
class TinyShakespeare(SymbolTask):
    """Characters of Shakespeare in chunks of 64: 63 to read, 63 to predict, each from state zero.

    The first 90 % of the text is cut into 15 685 chunks without overlap, of which 12 548, 1 568 and 1 569 at
    random are for training, validation and test. The symbols are the 65 characters of the text; the paper counts 107
    (100 printable ones and 7 special ones, which here would never occur) and embeds them in as many dimensions.
    Source: Karpathy 2015; the split, Lizaire et al. (2026), Section 4.3 and Appendix B.
    """

    length: int = 64
    """Characters of a chunk; one less is predicted."""

    name: ClassVar[str] = "shakespeare"
    source: ClassVar[str] = "Karpathy 2015; Lizaire et al. 2026 (split)"
    vocabulary = 65
    embedding: ClassVar[int] = 107

    def __post_init__(self) -> None:
        if check_size("length", self.length, 2) > READ // 10:
            raise OptionError(f"length must be at most {READ // 10}, a tenth of the text, got {self.length}")

    @property
    def steps(self) -> int:
        return self.length - 1

    def training_symbols(self) -> Tensor:
        return chunks(self.length)["train"][:, 1:].flatten()

    def spelled(self, symbols: Tensor) -> list[str]:
        return characters(symbols, shakespeare()[1])

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        train = chunks(self.length)["train"]
        return predict_next(
            train[torch.randint(len(train), (check_size("batch_size", batch_size),), generator=generator)].t()
        )

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """Of the chunks of the split, or of its first ``size``; ``train`` in a new order each epoch."""
        check_choice("split", split, ("train", "valid", "test"))
        part = chunks(self.length)[split][: check_size("size", size, 0) or None]
        shuffle = seed if split == "train" else None
        return Indexed(lambda rows: predict_next(part[rows].t()), len(part), batch_size, shuffle)
