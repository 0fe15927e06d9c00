"""The contract of a task."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Inputs ``(T, B, D)``, targets ``(T, B)``, and a mask ``(T, B)`` of the steps that are scored."""

    inputs: Tensor
    targets: Tensor
    mask: Tensor


class Task(Protocol):
    """A seeded generator that says how well one can do without memory. Same seed, same batch, on every machine."""

    @property
    def input_size(self) -> int:
        """The number of features of the input."""

    @property
    def output_size(self) -> int:
        """The number of classes to choose from."""

    @property
    def chance(self) -> float:
        """The accuracy of guessing."""

    @property
    def memoryless_baseline(self) -> float:
        """The smallest loss of any predictor that forgets its input."""

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Fresh sequences."""

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """What is minimised, from logits ``(T, B, output_size)``."""

    def accuracy(self, logits: Tensor, batch: Batch) -> float:
        """The share of scored steps that are right."""
