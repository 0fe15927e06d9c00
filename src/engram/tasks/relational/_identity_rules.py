"""Identity rules: complete the second row so that it has the pattern of the first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, factorial
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError, check_choice, check_flag
from engram.tasks.relational._basic import BasicTask
from engram.tasks.relational._choose import orders, pick, place_of, ways
from engram.tasks.relational._patterns import distinct_in, patterns_of, spelled
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._trials import Kind, Trials


def completion(pool: Tensor, pattern: str, choices: int, share: float) -> Kind:
    """A row of a pattern, one of the same pattern and of other shapes without its last, and shapes to choose it from.

    The choices are all shapes of the two rows, filled up with others.
    """
    shown = distinct_in(pattern)
    fillers = choices - 2 * shown

    def sample(count: int, generator: torch.Generator) -> Trials:
        shapes = pick(pool, count, choices, generator)
        first, second = (spelled(pattern, part) for part in shapes[:, : 2 * shown].chunk(2, 1))
        among = shapes.gather(1, orders(count, choices, generator))
        return Trials(torch.cat([first, second[:, :-1], among], 1), place_of(second[:, -1], among))

    space = ways(len(pool), 2 * shown) * comb(len(pool) - 2 * shown, fillers) * factorial(choices)
    return Kind(share, space, sample)


@dataclass(frozen=True)
class IdentityRules(BasicTask):
    """Three shapes in the pattern AAA, ABA or ABB, and two that begin the same pattern: which of four comes next?

    The four are the shapes of both rows, and others if these are fewer. Source: Webb et al. 2021 (ESBN), after Marcus
    et al. 1999; Kerg (2022), Section 5.4.1.
    """

    name: ClassVar[str] = "identity-rules"
    source: ClassVar[str] = "Webb et al. 2021 (ESBN)"
    steps, output_size = 9, 4
    rows, choice = (3, 2, 4), 1

    def least(self, split: str) -> int:
        return 4

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        return self.coloured([completion(pool, pattern, 4, 1 / 3) for pattern in ("AAA", "ABA", "ABB")])


TWO, THREE = tuple(patterns_of(4, 1, 2)), tuple(patterns_of(4, 3, 3))
"""The patterns of at most two shapes, and those of exactly three, whose last shape is one of the first three."""
MISSING = {False: ("ABAA", "ABAB"), True: ("ABCA",)}
"""What ``missing`` leaves out of the training patterns, by ``flipped``."""


@dataclass(frozen=True)
class IdentityRules4(RelationalTask):
    """Four shapes in a pattern, and three that begin the same pattern: which of six comes next?

    Trained on the patterns with at most two shapes (AAAA, AABA, AABB, ABAA, ABAB, ABBA, ABBB), tested on those with
    three (ABCA, ABCB, ABCC): on other shapes and on other relations. Source: Kerg (2022), Section 5.4.3 and Appendix
    C.3.
    """

    missing: bool = False
    """Leave ABAA and ABAB out of the training patterns; flipped: ABCA."""
    flipped: bool = False
    """Train on the patterns with three shapes, test on those with at most two."""
    without: tuple[str, ...] = ()
    """Further patterns to leave out of training, such as ABAA."""

    name: ClassVar[str] = "identity-rules4"
    source: ClassVar[str] = "Kerg et al. 2022 (CoRelNet)"
    steps, output_size = 13, 6
    rows, choice = (4, 3, 6), 1
    same_kinds = False

    def __post_init__(self) -> None:
        check_flag("missing", self.missing)
        known = THREE if check_flag("flipped", self.flipped) else TWO
        if not isinstance(self.without, tuple | list):
            raise DTypeError(f'without must be several patterns, such as ("ABAA",), got {self.without!r}')
        object.__setattr__(self, "without", tuple(self.without))  # a settings file gives a list
        for pattern in self.without:
            check_choice("pattern", pattern, known)
        if not self.patterns("train"):
            raise OptionError(f"without must leave one of the patterns {', '.join(known)} to train on")
        super().__post_init__()

    def patterns(self, split: str) -> list[str]:
        """What the rows of a split are like."""
        if split == "test":
            return list(TWO if self.flipped else THREE)
        left_out = (*self.without, *(MISSING[self.flipped] if self.missing else ()))
        return [pattern for pattern in (THREE if self.flipped else TWO) if pattern not in left_out]

    def least(self, split: str) -> int:
        return 6

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        patterns = self.patterns(split)
        return [completion(pool, pattern, 6, 1 / len(patterns)) for pattern in patterns]
