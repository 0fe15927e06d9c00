"""The parity task: the running product of signs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import check_size
from engram.tasks._regression import Regression
from engram.tasks._task import Batch


@dataclass(frozen=True)
class Parity(Regression):
    """y_t = x_1 * ... * x_t, component by component, of uniform signs x_t in {-1, +1}^d.

    One bit of state per component, which every step can turn: a bilinear network of d units is exact.
    Inputs and targets ``(T, B, d)``; trained by mean square error, judged by the signs.
    Source: Lizaire et al. (2026), Section 4.2.
    """

    features: int = 5
    """d, the signs at a step."""
    length: int = 20
    """T, the steps."""

    name: ClassVar[str] = "parity"
    source: ClassVar[str] = "Lizaire et al. 2026"
    metric: ClassVar[str] = "accuracy"
    chance = 0.5
    memoryless_baseline = 1.0  # of the constant 0

    def __post_init__(self) -> None:
        check_size("features", self.features)
        check_size("length", self.length)

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        shape = (self.length, batch_size, self.features)
        inputs = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1.0
        return Batch(inputs, inputs.cumprod(0), torch.ones(shape[:2], dtype=torch.bool))

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the signs that are right (an output of 0 has none), and the mean square error."""
        right = outputs.sign() == batch.targets
        return {"accuracy": float(right[batch.mask].float().mean()), **super().metrics(outputs, batch)}
