"""Distribution of N: the second row has the objects of the first in any order; which one is missing at its end?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import OptionError, check_flag, check_size
from engram.tasks.relational._basic import BasicTask
from engram.tasks.relational._choose import orders, pick, place_of, ways
from engram.tasks.relational._glyphs import COUNT
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._trials import Kind, Trials

Orders = Callable[[int, torch.Generator], Tensor]
LAST = 3
"""The objects at the end of a row that a restricted permutation keeps among themselves."""


def missing_one(pool: Tensor, number: int, permutations: int, order: Orders) -> Kind:
    """N shapes, the same in any order but for the last, and N + 1 to choose it from: these N and another one.

    Args:
        pool: the shapes.
        number: N.
        permutations: how many there are.
        order: samples some of them, ``(count, N)``.
    """

    def sample(count: int, generator: torch.Generator) -> Trials:
        shapes = pick(pool, count, number + 1, generator)
        first = shapes[:, :number]
        second = first.gather(1, order(count, generator))
        choices = shapes.gather(1, orders(count, number + 1, generator))
        rows = torch.cat([first, second[:, :-1], choices], 1)
        return Trials(rows, place_of(second[:, -1], choices))

    return Kind(1.0, ways(len(pool), number) * permutations, sample)


@dataclass(frozen=True)
class Distribution3(BasicTask):
    """Three shapes, the same in any order without the last, and four to choose it from: where is it among them?

    The fourth of these is another shape. Source: Webb et al. 2021 (ESBN); Kerg (2022), Section 5.4.1.
    """

    name: ClassVar[str] = "dist3"
    source: ClassVar[str] = "Webb et al. 2021 (ESBN)"
    steps, output_size = 9, 4
    rows, choice = (3, 2, 4), 1
    key = 5  # the two rows; the order of the choices, and the shape that is too many, are sampled for each

    def least(self, split: str) -> int:
        return 4

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        return self.coloured([missing_one(pool, 3, 6, lambda count, generator: orders(count, 3, generator))])


@dataclass(frozen=True)
class DistributionN(RelationalTask):
    """N shapes, the same in any order without the last, and N + 1 to choose it from: where is it among them?

    Restricted: in training the first N - 3 places of the second row have the first N - 3 shapes of the first row; in
    the test they never do. Source: Kerg (2022), Appendix C.4.
    """

    number: int = 10
    """N, the shapes in a row."""
    restricted: bool = False
    """Train on permutations that keep the first N - 3 shapes in the first N - 3 places, test on all others."""

    name: ClassVar[str] = "dist-n"
    source: ClassVar[str] = "Kerg et al. 2022 (CoRelNet)"
    choice: ClassVar[int] = 1

    def __post_init__(self) -> None:
        least = LAST + 1 if check_flag("restricted", self.restricted) else 2
        most = (COUNT // 2 if check_size("holdout", self.holdout, 0) else COUNT) - 1
        if not least <= check_size("number", self.number) <= most:
            raise OptionError(
                f"number must be from {least} to {most} with holdout={self.holdout}: N + 1 different shapes are shown, "
                f"in training and in the test, out of {COUNT}; got {self.number}"
            )
        super().__post_init__()

    @property
    def steps(self) -> int:
        return 3 * self.number

    @property
    def output_size(self) -> int:
        return self.number + 1

    @property
    def rows(self) -> tuple[int, ...]:
        return (self.number, self.number - 1, self.number + 1)

    @property
    def key(self) -> int:
        """The two rows."""
        return 2 * self.number - 1

    @property
    def same_kinds(self) -> bool:
        return not self.restricted

    def least(self, split: str) -> int:
        return self.number + 1

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        count, order = factorial(self.number), self._any
        kept = factorial(self.number - LAST) * factorial(LAST) if self.restricted else count
        if self.restricted:
            count, order = (kept, self._keeping) if split == "train" else (count - kept, self._others)
        return [missing_one(pool, self.number, count, order)]

    def _any(self, count: int, generator: torch.Generator) -> Tensor:
        return orders(count, self.number, generator)

    def _keeping(self, count: int, generator: torch.Generator) -> Tensor:
        """Permutations of the first N - 3 places, and of the last 3."""
        first = self.number - LAST
        return torch.cat([orders(count, first, generator), first + orders(count, LAST, generator)], 1)

    def _others(self, count: int, generator: torch.Generator) -> Tensor:
        """All other permutations: those that keep them are sampled again."""
        found = self._any(count, generator)
        while len(again := (found[:, -LAST:] >= self.number - LAST).all(1).nonzero()[:, 0]):
            found[again] = self._any(len(again), generator)
        return found
