"""The sinus tasks: a nonlinear function of the input, at once or p steps later."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from engram.errors import check_between, check_size
from engram.tasks._regression import Regression, check_lag, delayed
from engram.tasks._seeds import normal
from engram.tasks._task import Batch


@dataclass(frozen=True)
class Sinus(Regression):
    """y_t = sin(w x_t), component by component, of x_t ~ N(0, I_d): no memory, only a function.

    Inputs and targets ``(T, B, d)``; all steps are scored. Source: Lizaire et al. (2026), Section 4.1.
    """

    features: int = 5
    """d, the numbers at a step."""
    length: int = 16
    """T, the steps."""
    frequency: float = 3.0
    """w, the factor within the sine."""

    name: ClassVar[str] = "sinus"
    source: ClassVar[str] = "Lizaire et al. 2026"

    def __post_init__(self) -> None:
        check_size("features", self.features)
        check_size("length", self.length)
        check_between("frequency", self.frequency, 0, math.inf)

    @property
    def chance(self) -> float:
        return self.memoryless_baseline

    @property
    def memoryless_baseline(self) -> float:
        """Of the constant 0: E sin(wx)^2 = (1 - exp(-2 w^2)) / 2."""
        return (1 - math.exp(-2 * self.frequency**2)) / 2

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        return self._sample(batch_size, generator, lag=0)

    def _sample(self, batch_size: int, generator: torch.Generator, lag: int) -> Batch:
        check_size("batch_size", batch_size)
        inputs = normal(self.length, batch_size, self.features, generator=generator)
        return delayed(inputs, (self.frequency * inputs.double()).sin().float(), lag)


@dataclass(frozen=True)
class CopySinus(Sinus):
    """y_t = sin(w x_{t-p}), component by component, of x_t ~ N(0, I_d): a function and a delay.

    Inputs and targets ``(T, B, d)``; the first p steps are not scored. Source: Lizaire et al. (2026), Section
    4.1.
    """

    lag: int = 4
    """p, the steps to wait."""

    name: ClassVar[str] = "copy-sinus"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lag(self.lag, self.length)

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        return self._sample(batch_size, generator, self.lag)
