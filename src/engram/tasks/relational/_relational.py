"""What the tasks share that show a few of 100 shapes one after the other, and ask about their relation."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size
from engram.tasks._batches import Batches, Indexed, Resampled
from engram.tasks._score import accuracy, cross_entropy, cross_entropy_of_each
from engram.tasks._seeds import seeded
from engram.tasks._task import Batch, Task
from engram.tasks.relational._glyphs import COUNT, SIDE
from engram.tasks.relational._shapes import Shapes, plain_table, which_shapes
from engram.tasks.relational._trials import Kind, Trials, distinct, fresh, quotas, with_quotas

LARGEST = 10_000
"""Trials in a training or a test set by default, at most."""
TEST_PART = 0.05
"""The share of the trials of a kind that is kept for the test, where training and test have the same shapes."""
VALID = 256
"""Trials in a validation by default."""
ENDLESS = 2**62
"""More trials than anybody counts."""


class OneAnswer(Task):
    """A sequence of images, rows of a table of objects, and one class as the answer after the last of them.

    Inputs ``(T, B)`` rows of :meth:`Task.objects`, targets ``(1, B)``. The classes are equally frequent.
    """

    metric: ClassVar[str] = "accuracy"
    answer: ClassVar[Literal["every", "last"]] = "last"
    embedding: ClassVar[int] = 128
    context: ClassVar[str] = "whole"
    defaults: ClassVar[Mapping[str, Any]] = {"lr": 5e-4, "batch": 32, "clip": 0.0}
    widths: ClassVar[Mapping[str, int]] = {"lstm": 512}
    choice: ClassVar[int] = 0
    """How many images one choice has, where the answers are choices shown at the end of a sequence, in order."""

    @property
    def rows(self) -> tuple[int, ...]:
        """How many images stand in each row, where a trial is plotted; those of the choices are in the last."""
        return (self.steps,)

    @property
    def answers(self) -> tuple[str, ...]:
        """What the classes mean."""
        return tuple(f"choice {number}" for number in range(1, self.output_size + 1))

    @property
    def chance(self) -> float:
        return 1 / self.output_size

    @property
    def memoryless_baseline(self) -> float:
        """ln C: all classes are equally frequent."""
        return math.log(self.output_size)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of the answer."""
        return cross_entropy(outputs, batch)

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy_of_each(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of right answers."""
        return {"accuracy": accuracy(outputs, batch)}


@dataclass(frozen=True)
class RelationalTask(OneAnswer):
    """Trials over 100 shapes, m of which are held out: trained on the others, tested on these m alone.

    The shapes are black on white, ``(3, 32, 32)``. Which of them are held out is a function of the seed. The training
    trials are a set of at most 10,000, visited in epochs; so are the test trials. No trial is twice among them, except
    where a kind of trial has fewer than its share: those are sampled with replacement. With m = 0 all shapes are for
    both, and 5 % of the trials of each kind (at most 10,000 in all) are for the test only. Validation has trials of
    the training shapes.
    """

    holdout: int = 50
    """m, the shapes that are kept for the test; 0: all shapes are for both."""
    shapes: Shapes = "auto"
    """The shapes of the paper (esbn), or a hundred made by engram (glyphs); auto: esbn if they are on this machine."""

    input_shape = (3, SIDE, SIDE)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", which_shapes(self.shapes))  # a run notes which it was
        train, test = self.least("train"), self.least("test")
        if check_size("holdout", self.holdout, 0) > COUNT - train or 0 < self.holdout < test:
            raise OptionError(
                f"holdout must be 0 or from {test} to {COUNT - train}: of the {COUNT} shapes {self.name} needs {train} "
                f"for training and {test} for the test; got {self.holdout}"
            )

    @abstractmethod
    def least(self, split: str) -> int:
        """How many shapes the trials of a split need."""

    @abstractmethod
    def kinds(self, split: str, pool: Tensor) -> Sequence[Kind]:
        """The kinds of trials in a split, over these shapes."""

    @property
    def same_kinds(self) -> bool:
        """Whether training and test have the same kinds of trials."""
        return True

    @property
    def key(self) -> int:
        """How many of its first objects identify a trial. What comes after them is sampled anew each time."""
        return self.steps

    def largest(self, split: str) -> int:
        """How many trials a split has at most by default."""
        return LARGEST

    def objects(self) -> Tensor:
        return plain_table(self.shapes)

    def shapes_of(self, split: str, seed: int) -> Tensor:
        """The shapes that this split shows, out of 0..99."""
        order = torch.randperm(COUNT, generator=seeded(seed, "shapes"))
        return order[: self.holdout] if split == "test" and self.holdout else order[self.holdout :]

    def trials(self, split: str, seed: int = 0, size: int = 0) -> Trials:
        """The training or test set of a seed, in random order.

        Args:
            split: ``"train"`` or ``"test"``.
            seed: of the shapes and the trials.
            size: how many; fewer if there are fewer. Default: 0, as many as the paper has.
        """
        kinds, generator = self.kinds(split, self.shapes_of(split, seed)), seeded(seed, split)
        kept = self._kept_for_test(kinds, seed) if self.holdout == 0 and self.same_kinds else []
        if kept and split == "test":
            spaces = [len(trials.rows) for trials in kept]
        else:
            spaces = [kind.space - (len(kept[place].rows) if kept else 0) for place, kind in enumerate(kinds)]
        most = max(round(min(space, ENDLESS) / kind.share) for space, kind in zip(spaces, kinds, strict=True))
        total = min(check_size("size", size, 0) or self.largest(split), most)
        if kept and split == "test":
            return with_quotas(kinds, kept, total, generator)
        pools = [
            distinct(kind, count, self.key, generator, kept[place] if kept else None)
            for place, (kind, count) in enumerate(zip(kinds, quotas(kinds, total), strict=True))
        ]
        return with_quotas(kinds, pools, total, generator)

    def _kept_for_test(self, kinds: Sequence[Kind], seed: int) -> list[Trials]:
        """The trials of each kind that are for the test only, where the shapes are not."""
        generator = seeded(seed, "kept for the test")
        counts = quotas(kinds, self.largest("test"))
        parts = [round(TEST_PART * min(kind.space, ENDLESS)) for kind in kinds]
        return [distinct(kind, min(c, p), self.key, generator) for kind, c, p in zip(kinds, counts, parts, strict=True)]

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Fresh trials of the training shapes of seed 0."""
        return self._fresh(0, check_size("batch_size", batch_size), generator)

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        check_choice("split", split, ("train", "valid", "test"))
        if split == "valid":
            return Resampled(partial(self._fresh, seed), size or VALID, batch_size, seed, split)
        trials, order = self.trials(split, seed, size), seed if split == "train" else None
        return Indexed(lambda places: _batch(trials.take(places)), len(trials.rows), batch_size, order)

    def _fresh(self, seed: int, count: int, generator: torch.Generator) -> Batch:
        return _batch(fresh(self.kinds("train", self.shapes_of("train", seed)), count, generator))


def _batch(trials: Trials) -> Batch:
    targets = trials.answers[None]
    return Batch(trials.rows.T.contiguous(), targets, torch.ones_like(targets, dtype=torch.bool))
