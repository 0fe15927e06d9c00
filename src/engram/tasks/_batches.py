"""Training data as a sequence one can enter at any step: nothing about the past needs to be remembered to resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from engram.errors import check_size
from engram.tasks._seeds import seeded

if TYPE_CHECKING:
    from engram.tasks._task import Batch


class Batches(Protocol):
    """``batches[k]`` is the k-th batch, for every k >= 0; an epoch is ``per_epoch`` of them."""

    @property
    def per_epoch(self) -> int:
        """Batches per epoch; 0 if the data never ends."""

    @property
    def carries(self) -> bool:
        """Whether the state goes over from one batch of an epoch to the next (text in truncated windows)."""

    def __getitem__(self, k: int) -> Batch: ...


class Fresh:
    """Sequences that are never seen twice."""

    per_epoch, carries = 0, False

    def __init__(self, sample: Callable[[int, torch.Generator], Batch], batch_size: int, seed: int) -> None:
        self.sample, self.batch_size, self.seed = sample, check_size("batch_size", batch_size), seed

    def __getitem__(self, k: int) -> Batch:
        return self.sample(self.batch_size, seeded(self.seed, "train", k))


BLOCK = 32


class Resampled:
    """A fixed set of ``size`` sequences that is sampled again each time it is read: it takes no memory.

    They are sampled in blocks of 32, so that the set does not depend on the batch size.
    """

    carries = False

    def __init__(
        self, sample: Callable[[int, torch.Generator], Batch], size: int, batch_size: int, seed: int, split: str
    ) -> None:
        self.sample, self.seed, self.split = sample, seed, split
        self.size, self.batch_size = check_size("size", size), check_size("batch_size", batch_size)

    @property
    def per_epoch(self) -> int:
        return -(-self.size // self.batch_size)

    def __getitem__(self, k: int) -> Batch:
        first = k % self.per_epoch * self.batch_size
        last = min(first + self.batch_size, self.size)
        blocks = [
            self.sample(BLOCK, seeded(self.seed, self.split, block))
            for block in range(first // BLOCK, -(-last // BLOCK))
        ]
        skip = first // BLOCK * BLOCK
        parts = (torch.cat(part, 1)[:, first - skip : last - skip] for part in zip(*blocks, strict=True))
        return type(blocks[0])(*parts)


class Indexed:
    """A stored set, in a new order each epoch (or always in its own, with ``seed=None``).

    Args:
        take: gives the sequences of these rows.
        size: how many there are.
        seed: random seed of the order. A shuffled epoch leaves out the incomplete last batch, so that all steps weigh
            alike.
    """

    carries = False

    def __init__(self, take: Callable[[Tensor], Batch], size: int, batch_size: int, seed: int | None) -> None:
        self.take, self.seed, self.size = take, seed, check_size("size", size)
        self.batch_size = min(check_size("batch_size", batch_size), size)
        self._epoch, self._order = -1, torch.arange(size)

    @property
    def per_epoch(self) -> int:
        return self.size // self.batch_size if self.seed is not None else -(-self.size // self.batch_size)

    def __getitem__(self, k: int) -> Batch:
        epoch, k = divmod(k, self.per_epoch)
        if self.seed is not None and epoch != self._epoch:
            self._order = torch.randperm(self.size, generator=seeded(self.seed, "order", epoch))
            self._epoch = epoch
        return self.take(self._order[k * self.batch_size : (k + 1) * self.batch_size])
