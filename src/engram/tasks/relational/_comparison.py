"""Comparison: which of two is larger?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.tasks.relational._choose import pick
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._shapes import SIZES, sized_table
from engram.tasks.relational._trials import Kind, Trials

SMALL, MEDIUM, LARGE = range(len(SIZES))


@dataclass(frozen=True)
class Comparison(RelationalTask):
    """The same shape twice, small and large: where is the large one, first (0) or second (1)?

    Sides of 10 and 28 pixels. The relation has a direction: to exchange the two changes the answer. Source: Kerg
    (2022), Section 7.2.
    """

    name: ClassVar[str] = "comparison"
    source: ClassVar[str] = "Kerg 2022"
    steps, output_size = 2, 2
    choice = 1
    sizes: ClassVar[dict[str, list[tuple[int, int]]]] = {
        "train": [(SMALL, LARGE), (LARGE, SMALL)],
        "test": [(SMALL, LARGE), (LARGE, SMALL)],
    }

    def least(self, split: str) -> int:
        return 1

    def objects(self) -> Tensor:
        return sized_table(self.shapes)

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        couples = self.sizes[split]
        return [_of_sizes(pool, *couple, 1 / len(couples)) for couple in couples]


@dataclass(frozen=True)
class TransitiveComparison(Comparison):
    """The same shape twice, in two sizes: where is the larger one, first (0) or second (1)?

    Trained on medium with large and on small with medium (sides of 10, 18 and 28 pixels), tested on small with large.
    Source: Kerg (2022), Section 7.2.
    """

    name: ClassVar[str] = "transitive-comparison"
    same_kinds = False
    sizes: ClassVar[dict[str, list[tuple[int, int]]]] = {
        "train": [(MEDIUM, LARGE), (LARGE, MEDIUM), (SMALL, MEDIUM), (MEDIUM, SMALL)],
        "test": [(SMALL, LARGE), (LARGE, SMALL)],
    }


def _of_sizes(pool: Tensor, first: int, second: int, share: float) -> Kind:
    def sample(count: int, generator: torch.Generator) -> Trials:
        rows = len(SIZES) * pick(pool, count, 1, generator) + torch.tensor([first, second])
        return Trials(rows, torch.full((count,), int(second > first)))

    return Kind(share, len(pool), sample)
