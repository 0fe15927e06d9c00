"""Sets of trials: how many of each kind, and none twice where there are enough of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ROUNDS = 100
"""After r rounds of as many samples as there are trials, one of them is still missing with probability e^-r."""


class Trials(NamedTuple):
    """n trials: rows ``(n, T)`` of a table of objects, and answers ``(n,)``."""

    rows: Tensor
    answers: Tensor

    def take(self, places: Tensor | slice) -> "Trials":
        """Some of them."""
        return Trials(self.rows[places], self.answers[places])


Sampler = Callable[[int, torch.Generator], Trials]
"""``sample(count, generator)`` gives ``count`` trials."""


class Kind(NamedTuple):
    """Trials of one pattern, such as "same".

    share: its part of all trials; those of all kinds sum to 1.
    space: how many different trials there are.
    sample: gives any number of them, each uniform among all.
    """

    share: float
    space: int
    sample: Sampler


def joined(trials: Sequence[Trials]) -> Trials:
    """All of them, one set after the other."""
    return Trials(*(torch.cat(part) for part in zip(*trials, strict=True)))


def shuffled(trials: Trials, generator: torch.Generator) -> Trials:
    """The same trials in random order."""
    return trials.take(torch.randperm(len(trials.rows), generator=generator))


def fresh(kinds: Sequence[Kind], count: int, generator: torch.Generator) -> Trials:
    """Independent trials: the kind of each by the shares, then the trial."""
    shares = torch.tensor([kind.share for kind in kinds], dtype=torch.float64)
    uniform = torch.rand(count, dtype=torch.float64, generator=generator)
    chosen = torch.searchsorted(shares.cumsum(0)[:-1].contiguous(), uniform, right=True)
    counts = torch.bincount(chosen, minlength=len(kinds)).tolist()
    parts = [kind.sample(many, generator) for kind, many in zip(kinds, counts, strict=True) if many]
    return shuffled(joined(parts), generator)


def quotas(kinds: Sequence[Kind], size: int) -> list[int]:
    """How many trials of each kind a set of this size has; what is left over goes to the first kinds.

    >>> quotas([Kind(0.5, 9, print), Kind(0.5, 9, print)], 7)
    [4, 3]
    """
    counts = [int(size * kind.share + 1e-9) for kind in kinds]
    for place in range(size - sum(counts)):
        counts[place % len(kinds)] += 1
    return counts


def distinct(kind: Kind, count: int, key: int, generator: torch.Generator, others: Trials | None = None) -> Trials:
    """``count`` trials of a kind, or all there are, none twice and none of ``others``: a uniform choice.

    Trials are sampled until there are enough that differ in their first ``key`` objects. To find all S of a kind takes
    about S ln S samples.
    """
    found = kind.sample(0, generator) if others is None else others
    skip = len(found.rows)
    wanted = skip + min(count, kind.space - skip)
    for _ in range(ROUNDS):
        if len(found.rows) >= wanted:
            return found.take(slice(skip, wanted))
        found = joined([found, kind.sample(max(wanted, 64), generator)])
        found = found.take(_first_of_each(found.rows[:, :key]))
    raise RuntimeError(f"a kind of trials says that there are {kind.space:,}, and only {len(found.rows):,} are found")


def _first_of_each(rows: Tensor) -> Tensor:
    """Where each different row comes first, in order."""
    packed = np.ascontiguousarray(rows.int().numpy()).view(f"V{4 * rows.shape[1]}")  # a row as one value sorts faster
    return torch.from_numpy(np.sort(np.unique(packed, return_index=True)[1]))


def with_quotas(kinds: Sequence[Kind], pools: Sequence[Trials], size: int, generator: torch.Generator) -> Trials:
    """A set of ``size`` trials, each kind by its share, out of the pool of its kind; in random order.

    A pool that has too few is sampled from with replacement.
    """
    parts = []
    for pool, count in zip(pools, quotas(kinds, size), strict=True):
        many = len(pool.rows)
        parts.append(pool.take(slice(count) if count <= many else torch.randint(many, (count,), generator=generator)))
    return shuffled(joined(parts), generator)
