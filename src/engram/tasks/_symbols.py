"""Next-symbol prediction: what the texts and the automata share."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.tasks._score import accuracy, masked_cross_entropy
from engram.tasks._task import Batch, Task


def entropy(classes: Tensor) -> float:
    """Of these classes, in nats: the loss of the best constant answer.

    >>> entropy(torch.tensor([0, 2, 2, 0])) == math.log(2)
    True
    """
    share = torch.bincount(classes.flatten()).double() / classes.numel()
    return float(-torch.xlogy(share, share).sum())


@dataclass(frozen=True)
class SymbolTask(Task):
    """Predict the next symbol at every step; inputs and targets are whole numbers ``(T, B)``."""

    metric: ClassVar[str] = "bpc"
    is_data_set: ClassVar[bool] = True

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def output_size(self) -> int:
        return self.vocabulary

    @property
    def chance(self) -> float:
        """The baseline in bits: the metric of the best constant answer."""
        return self.memoryless_baseline / math.log(2)

    @property
    def memoryless_baseline(self) -> float:
        """The entropy of the symbols of the training text (each symbol alone), in nats."""
        return entropy(self.training_symbols())

    @abstractmethod
    def training_symbols(self) -> Tensor:
        """All that is to be predicted in training, flat."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy in nats, averaged over the symbols that are predicted."""
        return masked_cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The loss in bits per symbol, and the share of the symbols whose guess is right."""
        bits = float(masked_cross_entropy(outputs, batch)) / math.log(2)
        return {self.metric: bits, "accuracy": accuracy(outputs, batch)}
