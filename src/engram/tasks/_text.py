"""Long texts, read in parallel streams whose state is carried on; the characters of the Penn Treebank."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size
from engram.tasks._batches import Batches
from engram.tasks._data import read
from engram.tasks._symbols import SymbolTask
from engram.tasks._task import Batch

SPACE = ord(" ")
EVALUATION_STREAMS = 10


class Windows:
    """A text cut into B contiguous streams of equal length (fewer than B symbols at its end are left out).

    Batch k is window k of ``bptt`` steps of all streams, so that it continues batch k - 1; the last may be shorter.

    Args:
        symbols: the text, flat.
        batch_size: B, the streams.
        bptt: the steps of a window.
    """

    carries = True

    def __init__(self, symbols: Tensor, batch_size: int, bptt: int) -> None:
        streams = min(check_size("batch_size", batch_size), len(symbols) // 2)
        length = len(symbols) // streams
        self.streams, self.bptt = symbols[: streams * length].view(streams, length).t(), bptt

    @property
    def per_epoch(self) -> int:
        return -(-(len(self.streams) - 1) // self.bptt)

    def __getitem__(self, k: int) -> Batch:
        start = k % self.per_epoch * self.bptt
        return predict_next(self.streams[start : start + self.bptt + 1])


def predict_next(symbols: Tensor) -> Batch:
    """From symbols ``(T + 1, B)``: the first T are the inputs, the last T the targets."""
    symbols = symbols.long()
    targets = symbols[1:].contiguous()
    return Batch(symbols[:-1].contiguous(), targets, torch.ones_like(targets, dtype=torch.bool))


def encoded(text: np.ndarray, alphabet: bytes) -> Tensor:
    """Bytes as their places in the alphabet."""
    place = np.zeros(256, np.uint8)
    place[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet))
    return torch.from_numpy(place[text])


def characters(symbols: Tensor, alphabet: bytes) -> list[str]:
    """Places in the alphabet as characters; the end of a line, which cannot be seen, as an arrow.

    >>> characters(torch.tensor([1, 0]), b"\\nab")
    ['a', '↵']
    """
    return [chr(alphabet[symbol]).replace("\n", "↵") for symbol in symbols.tolist()]


@lru_cache
def treebank(split: str) -> tuple[Tensor, bytes]:
    """The text of a split as numbers, and the alphabet: the 50 bytes of the training text, sorted (newline first)."""
    text = np.frombuffer(read(f"ptb/ptb.char.{split}.txt"), np.uint8)
    text = text[text != SPACE]  # it stands between any two symbols; the space of the text is an underscore
    alphabet = bytes(np.unique(text)) if split == "train" else treebank("train")[1]
    return encoded(text, alphabet), alphabet


@dataclass(frozen=True)
class PennTreebank(SymbolTask):
    """Characters of the Penn Treebank, the state carried from window to window.

    50 symbols: 49 characters and the end of a line. Validation and test are read in 10 streams whatever the batch.
    Source: Mikolov et al. 2012; the protocol, Kerg (2022), Section 3.6.2 and Appendix A.1.3.
    """

    bptt: int = 150
    """Steps of a window, through which gradients flow."""
    subset: int = 0
    """Train on this many characters only, the first ones; 0 means all 5,017,482."""

    name: ClassVar[str] = "ptb"
    source: ClassVar[str] = "Mikolov et al. 2012; Kerg et al. 2019 (nnRNN)"
    vocabulary = 50
    embedding: ClassVar[int] = 200

    def __post_init__(self) -> None:
        check_size("bptt", self.bptt)
        if check_size("subset", self.subset, 0) and self.subset <= self.bptt:
            raise OptionError(f"subset must be 0 or more than bptt = {self.bptt} characters, got {self.subset}")

    @property
    def steps(self) -> int:
        return self.bptt

    def training_symbols(self) -> Tensor:
        return treebank("train")[0][: self.subset or None]

    def spelled(self, symbols: Tensor) -> list[str]:
        return characters(symbols, treebank("train")[1])

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Windows from anywhere in the training text."""
        text = self.training_symbols()
        starts = torch.randint(len(text) - self.bptt, (check_size("batch_size", batch_size),), generator=generator)
        return predict_next(text[starts + torch.arange(self.bptt + 1)[:, None]])

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """The windows in the order of the text, whatever the seed; with ``size``, of ``size * bptt`` characters."""
        check_choice("split", split, ("train", "valid", "test"))
        text = self.training_symbols() if split == "train" else treebank(split)[0]
        if check_size("size", size, 0):
            text = text[: size * self.bptt + 1]
        return Windows(text, batch_size if split == "train" else EVALUATION_STREAMS, self.bptt)
