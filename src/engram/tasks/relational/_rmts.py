"""Relational match to sample: which of two targets has the relation of the source? With pairs and with triplets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import torch
from torch import Tensor

from engram.tasks.relational._basic import BasicTask
from engram.tasks.relational._choose import one_of, pick, ways
from engram.tasks.relational._patterns import distinct_in, spelled
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._trials import Kind, Trials


def match(pool: Tensor, pattern: str, other: str, share: float) -> Kind:
    """A source and a target of one pattern, a target of another; no two of the three have a shape in common."""
    sizes = [distinct_in(pattern), distinct_in(pattern), distinct_in(other)]

    def sample(count: int, generator: torch.Generator) -> Trials:
        source, right, wrong = pick(pool, count, sum(sizes), generator).split(sizes, 1)
        answers = one_of(count, 2, generator)
        first = answers[:, None] == 0
        right, wrong = spelled(pattern, right), spelled(other, wrong)
        targets = [torch.where(first, right, wrong), torch.where(first, wrong, right)]
        return Trials(torch.cat([spelled(pattern, source), *targets], 1), answers)

    return Kind(share, 2 * ways(len(pool), sum(sizes)), sample)


@dataclass(frozen=True)
class RelationalMatch(BasicTask):
    """A source pair and two target pairs, one of equal and one of different shapes: which is like the source?

    All shapes of a trial are different but for those of a pair of equals; the class is the place of the right target.
    Source: Webb et al. 2021 (ESBN); Kerg (2022), Section 5.4.1.
    """

    name: ClassVar[str] = "rmts"
    source: ClassVar[str] = "Webb et al. 2021 (ESBN)"
    steps, output_size = 6, 2
    segments = (2, 2, 2)
    rows, choice = (2, 4), 2

    def least(self, split: str) -> int:
        return 5

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        return self.coloured([match(pool, "AA", "AB", 0.5), match(pool, "AB", "AA", 0.5)])


@dataclass(frozen=True)
class RelationalMatch3(RelationalTask):
    """A source triplet and two target triplets: which has the pattern of the source?

    Trained on the patterns AAA, ABA and BAA, tested on ABC and AAB: on other shapes and on other relations. No shape is
    in two triplets. Source: Kerg (2022), Section 5.4.3 ("RMTS 3").
    """

    name: ClassVar[str] = "rmts3"
    source: ClassVar[str] = "Kerg et al. 2022 (CoRelNet)"
    steps, output_size = 9, 2
    segments = (3, 3, 3)
    rows, choice = (3, 6), 3
    same_kinds = False
    patterns: ClassVar[dict[str, tuple[str, ...]]] = {"train": ("AAA", "ABA", "BAA"), "test": ("ABC", "AAB")}

    def least(self, split: str) -> int:
        return max(2 * distinct_in(a) + distinct_in(b) for a, b in permutations(self.patterns[split], 2))

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        couples = list(permutations(self.patterns[split], 2))
        return [match(pool, pattern, other, 1 / len(couples)) for pattern, other in couples]
