"""What the tasks share that ask for as many numbers as they show, at every step."""

from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.tasks._score import masked_mse
from engram.tasks._task import Batch, Task


class Regression(Task):
    """Inputs and targets ``(T, B, d)``; the mean square error over the d components and the scored steps."""

    metric: ClassVar[str] = "mse"
    features: int
    length: int

    @property
    def input_size(self) -> int:
        return self.features

    @property
    def output_size(self) -> int:
        return self.features

    @property
    def steps(self) -> int:
        return self.length

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The mean square error over the scored steps."""
        return masked_mse(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The mean square error over the scored steps."""
        return {"mse": float(masked_mse(outputs, batch))}


def check_lag(lag: int, length: int) -> None:
    """At least one step must be scored."""
    if check_size("length", length) <= check_size("lag", lag):
        raise OptionError(f"length must be more than the lag {lag}, else no step is scored, got {length}")


def delayed(inputs: Tensor, values: Tensor, lag: int) -> Batch:
    """Ask for ``values`` p = ``lag`` steps late: the first p targets are 0 and, by their position, not scored."""
    targets = torch.cat([torch.zeros_like(values[:lag]), values[: len(values) - lag]])
    mask = torch.ones(values.shape[:2], dtype=torch.bool)
    mask[:lag] = False
    return Batch(inputs, targets, mask)
