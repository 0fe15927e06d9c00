"""Same or different: two shapes, or two with a patch of colour after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.tasks.relational._basic import BasicTask
from engram.tasks.relational._choose import pick, ways
from engram.tasks.relational._glyphs import COUNT
from engram.tasks.relational._relational import ENDLESS, LARGEST, RelationalTask
from engram.tasks.relational._shapes import COLOURS, separated_table
from engram.tasks.relational._trials import Kind, Sampler, Trials

SAME, DIFFERENT = 0, 1
ANSWERS = ("same", "different")


def pairs(pool: Tensor) -> list[Kind]:
    """Two equal shapes (class 0), and two different ones (class 1)."""

    def same(count: int, generator: torch.Generator) -> Trials:
        return Trials(pick(pool, count, 1, generator).expand(-1, 2), torch.full((count,), SAME))

    def different(count: int, generator: torch.Generator) -> Trials:
        return Trials(pick(pool, count, 2, generator), torch.full((count,), DIFFERENT))

    return [Kind(0.5, len(pool), same), Kind(0.5, ways(len(pool), 2), different)]


@dataclass(frozen=True)
class SameDifferent(BasicTask):
    """Two shapes: are they the same (0) or different (1)?

    The training set has all pairs of different shapes, N (N - 1) of N shapes, and as many equal ones, sampled with
    replacement. Source: Webb et al. 2021 (ESBN); Kerg (2022), Section 5.4.1.
    """

    name: ClassVar[str] = "same-different"
    source: ClassVar[str] = "Webb et al. 2021 (ESBN)"
    steps, output_size = 2, 2
    answers = ANSWERS

    def least(self, split: str) -> int:
        return 2

    def largest(self, split: str) -> int:
        return ENDLESS if split == "train" and not self.spurious else LARGEST

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        return self.coloured(pairs(pool))


@dataclass(frozen=True)
class Separated(RelationalTask):
    """Shape, colour, shape, colour: are the shapes the same (0) or different (1)? The colours mean nothing.

    A colour fills its image; training and test have the same 100. Source: Kerg (2022), Appendix C.6.
    """

    name: ClassVar[str] = "separated"
    source: ClassVar[str] = "Kerg et al. 2022 (CoRelNet)"
    steps, output_size = 4, 2
    answers = ANSWERS

    def least(self, split: str) -> int:
        return 2

    def objects(self) -> Tensor:
        return separated_table(self.shapes)

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        return [Kind(kind.share, kind.space * COLOURS**2, _with_patches(kind)) for kind in pairs(pool)]


def _with_patches(kind: Kind) -> Sampler:
    """Its trials, with the image of a random colour after each shape."""

    def sample(count: int, generator: torch.Generator) -> Trials:
        rows, answers = kind.sample(count, generator)
        patches = COUNT + torch.randint(COLOURS, rows.shape, generator=generator)
        return Trials(torch.stack([rows, patches], 2).flatten(1), answers)

    return sample
