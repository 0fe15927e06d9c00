"""A task of images in a table, small enough for tests of networks: which of two objects was shown first."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.tasks import Batch, Task
from engram.tasks._score import accuracy, cross_entropy, cross_entropy_of_each


@dataclass(frozen=True)
class Shown(Task):
    """T images out of a table of ``objects``; the answer is whether the last equals one before it, modulo classes."""

    length: int = 4
    classes: int = 2
    count: int = 7
    side: int = 32
    parts: tuple[int, ...] = ()

    answer: ClassVar[Literal["every", "last"]] = "last"
    context: ClassVar[str] = "whole"
    embedding: ClassVar[int] = 128

    input_shape = property(lambda self: (3, self.side, self.side))  # type: ignore[assignment]
    output_size = property(lambda self: self.classes)  # type: ignore[assignment]
    steps = property(lambda self: self.length)  # type: ignore[assignment]
    segments = property(lambda self: self.parts or (self.length,))  # type: ignore[assignment]
    chance = property(lambda self: 0.5)  # type: ignore[assignment]
    memoryless_baseline = property(lambda self: 1.0)  # type: ignore[assignment]

    def objects(self) -> Tensor:
        return torch.rand(self.count, *self.input_shape, generator=torch.Generator().manual_seed(0))

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        rows = torch.randint(self.count, (self.length, batch_size), generator=generator)
        targets = (rows[:-1] == rows[-1]).any(0, keepdim=True).long() if self.length > 1 else rows % self.classes
        return Batch(rows, targets, torch.ones(1, batch_size, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(outputs, batch)

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy_of_each(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return {"accuracy": accuracy(outputs, batch)}
