"""PAutomaC: strings of probabilistic automata, whose true probabilities are published."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from engram.errors import DataError, OptionError, check_choice, check_size
from engram.tasks._batches import Batches, Indexed
from engram.tasks._data import read
from engram.tasks._symbols import SymbolTask
from engram.tasks._task import Batch

SYMBOLS = {1: 8, 3: 4, 5: 6, 7: 13, 9: 4, 14: 12, 24: 5, 28: 6, 29: 6, 30: 10, 31: 5, 38: 10, 42: 9, 43: 5, 45: 19}
"""The problems, by their numbers in the competition, and the sizes of their alphabets."""
TRAIN = 18_000


def read_strings(content: bytes) -> tuple[int, list[list[int]]]:
    """The size of the alphabet and the strings, from lines ``length s1 s2 ...`` after a line ``count alphabet``.

    >>> read_strings(b"2 3\\r\\n2 0 2 \\r\\n0 \\r\\n")
    (3, [[0, 2], []])
    """
    (count, alphabet), *rows = (list(map(int, line.split())) for line in content.splitlines())
    strings = [row[1:] for row in rows]
    if len(strings) != count or any(row[0] != len(row) - 1 for row in rows):
        raise DataError(f"expected {count} strings, each after its length, got {len(strings)} lines")
    return alphabet, strings


@lru_cache
def strings(problem: int, part: str) -> list[Tensor]:
    """The strings of the file ``train`` or ``test``, each between two boundaries: ``(length + 2,)``."""
    boundary, found = read_strings(read(f"pautomac/{problem}.pautomac.{part}"))
    flat = torch.tensor([symbol for string in found for symbol in (boundary, *string, boundary)])
    return list(flat.split([len(string) + 2 for string in found]))


def solution(problem: int) -> tuple[list[list[int]], npt.NDArray[np.float64]]:
    """The 1000 test strings and their true probabilities, which are scaled to sum to 1."""
    found = read_strings(read(f"pautomac/{problem}.pautomac.test"))[1]
    lines = read(f"pautomac/{problem}.pautomac_solution.txt").split()
    return found, np.array(lines[1:], dtype=np.float64)


@lru_cache
def _baseline(problem: int) -> float:
    padded = pad_sequence([string[1:] for string in strings(problem, "train")[:TRAIN]], padding_value=-1)
    counts = torch.stack([(padded == symbol).sum(1) for symbol in range(SYMBOLS[problem] + 1)]).double()  # (V, T)
    return float(-torch.xlogy(counts, counts / counts.sum(0)).sum() / counts.sum())


@dataclass(frozen=True)
class PAutomaC(SymbolTask):
    """Predict the next symbol of a string, and its end (Verwer, Eyraud and de la Higuera 2012).

    A string of n symbols takes n + 1 steps. One more symbol, the last of the vocabulary, is the boundary: the first
    input and the last target. Shorter strings of a batch are filled up with it, and the mask leaves that out. 18 000
    strings are for training, the next 2 000 for validation, and the 1 000 of the test file for the test.
    """

    problem: int = 1
    """Its number in the competition."""

    name: ClassVar[str] = "pautomac"
    source: ClassVar[str] = "Verwer, Eyraud and de la Higuera 2012"
    metric: ClassVar[str] = "bits"

    def __post_init__(self) -> None:
        if check_size("problem", self.problem) not in SYMBOLS:
            raise OptionError(f"unknown problem {self.problem}: expected one of {', '.join(map(str, SYMBOLS))}")

    @property
    def vocabulary(self) -> int:
        return SYMBOLS[self.problem] + 1

    @property
    def steps(self) -> int:
        """Of the longest string; a batch is as long as its own longest."""
        return max(len(string) - 1 for part in ("train", "test") for string in strings(self.problem, part))

    def training_symbols(self) -> Tensor:
        return torch.cat([string[1:] for string in self._strings("train")])

    @property
    def memoryless_baseline(self) -> float:
        """The entropy of the t-th symbol of those strings that reach it, averaged over all symbols, in nats.

        Knowing the step alone is worth much here: in problem 9 it halves the loss of a constant answer.
        """
        return _baseline(self.problem)

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        rows = torch.randint(TRAIN, (check_size("batch_size", batch_size),), generator=generator)
        return self._batch(self._strings("train"), rows)

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """Of the strings of the split, or of its first ``size``; ``train`` in a new order each epoch."""
        check_choice("split", split, ("train", "valid", "test"))
        part = self._strings(split)[: check_size("size", size, 0) or None]
        return Indexed(lambda rows: self._batch(part, rows), len(part), batch_size, seed if split == "train" else None)

    def _strings(self, split: str) -> list[Tensor]:
        if split == "test":
            return strings(self.problem, "test")
        return strings(self.problem, "train")[slice(TRAIN) if split == "train" else slice(TRAIN, None)]

    def _batch(self, part: list[Tensor], rows: Tensor) -> Batch:
        chosen = [part[row] for row in rows.tolist()]
        whole = pad_sequence(chosen, padding_value=self.vocabulary - 1)
        lengths = torch.tensor([len(string) - 1 for string in chosen])
        return Batch(whole[:-1], whole[1:], torch.arange(len(whole) - 1)[:, None] < lengths)
