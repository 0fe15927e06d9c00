"""Same or different, of two triplets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.errors import check_choice
from engram.tasks.relational._choose import one_of, pick, ways
from engram.tasks.relational._patterns import distinct_in, letters, spelled
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._same_different import ANSWERS, DIFFERENT, SAME
from engram.tasks.relational._trials import Kind, Trials

TRAINED, NEW = ("AAA", "ABA", "BAA"), "AAB"
SWAPPED = str.maketrans("AB", "BA")


@dataclass(frozen=True)
class SameDifferent6(RelationalTask):
    """Two triplets of at most two shapes: are they the same (0) or different (1)?

    Trained on triplets of the patterns AAA, ABA and BAA; tested on other shapes, with a triplet AAB at least once. At
    level "image" the second triplet is the first image by image, or another one of the same two shapes (AAB and BBA are
    different). At level "pattern" they are the same if their patterns are; the shapes then are others in the second
    triplet, where there are enough to choose from. Source: Kerg (2022), Section 5.4.3 ("Same/diff 6").
    """

    level: Literal["image", "pattern"] = "image"
    """What is to be the same: the images, or the pattern only."""

    name: ClassVar[str] = "same-different6"
    source: ClassVar[str] = "Kerg et al. 2022 (CoRelNet)"
    steps, output_size = 6, 2
    rows = (3, 3)
    answers = ANSWERS
    same_kinds = False

    def __post_init__(self) -> None:
        check_choice("level", self.level, ("image", "pattern"))
        super().__post_init__()

    def least(self, split: str) -> int:
        return 2

    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        is_test = split == "test"
        equal = [(NEW, NEW)] if is_test else [(pattern, pattern) for pattern in TRAINED]
        if self.level == "pattern":
            pairs = permutations((*TRAINED, NEW) if is_test else TRAINED, 2)
            unequal = [pair for pair in pairs if NEW in pair or not is_test]
            return [
                *(by_pattern(pool, *pair, SAME, 0.5 / len(equal)) for pair in equal),
                *(by_pattern(pool, *pair, DIFFERENT, 0.5 / len(unequal)) for pair in unequal),
            ]
        return [
            *(by_image(pool, [pair], SAME, 0.5 / len(equal)) for pair in equal),
            by_image(pool, different_words(is_test), DIFFERENT, 0.5),
        ]


def different_words(is_test: bool) -> list[tuple[str, str]]:
    """Two different triplets over A and B, whose first has one of the patterns as it is spelled; the second may have
    the letters in each other's places too.

    >>> len(different_words(False)), len(different_words(True))
    (15, 13)
    """
    patterns = (*TRAINED, NEW) if is_test else TRAINED
    words = [word for pattern in patterns for word in (pattern, pattern.translate(SWAPPED))]
    news = (NEW, NEW.translate(SWAPPED))
    pairs = [(first, second) for first in patterns for second in words if second != first]
    return [pair for pair in pairs if not is_test or news[0] in pair or news[1] in pair]


def by_image(pool: Tensor, words: list[tuple[str, str]], answer: int, share: float) -> Kind:
    """One of some pairs of words over the same shapes."""
    places = torch.tensor([letters(first + second) for first, second in words])
    many = max(distinct_in(first + second) for first, second in words)

    def sample(count: int, generator: torch.Generator) -> Trials:
        shapes = pick(pool, count, many, generator)
        return Trials(shapes.gather(1, places[one_of(count, len(words), generator)]), torch.full((count,), answer))

    return Kind(share, len(words) * ways(len(pool), many), sample)


def by_pattern(pool: Tensor, first: str, second: str, answer: int, share: float) -> Kind:
    """A triplet of one pattern and one of another or the same pattern, over other shapes where there are enough."""
    sizes = [distinct_in(first), distinct_in(second)]
    if len(pool) < sum(sizes):  # both are over the same two shapes
        return by_image(pool, [(first, second), (first, second.translate(SWAPPED))], answer, share)

    def sample(count: int, generator: torch.Generator) -> Trials:
        one, two = pick(pool, count, sum(sizes), generator).split(sizes, 1)
        return Trials(torch.cat([spelled(first, one), spelled(second, two)], 1), torch.full((count,), answer))

    return Kind(share, ways(len(pool), sum(sizes)), sample)
