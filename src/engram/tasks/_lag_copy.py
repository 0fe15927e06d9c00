"""The lag copying task: repeat each input p steps later."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from engram.errors import check_size
from engram.tasks._regression import Regression, check_lag, delayed
from engram.tasks._seeds import normal
from engram.tasks._task import Batch


@dataclass(frozen=True)
class LagCopy(Regression):
    """y_t = x_{t-p} of x_t ~ N(0, I_d); the first p steps are not scored.

    A linear network of L layers of n units needs L(n-d) >= pd to be exact, and has MSE >= 1 - nL/(pd) at T = 2p;
    with T <= 2p fewer units come as near as they like to their bound, so a test of depth takes ``length`` above 2p.
    Inputs and targets ``(T, B, d)``. Source: Lizaire et al. (2026), Section 4.1.
    """

    lag: int = 8
    """p, the steps to wait."""
    features: int = 5
    """d, the numbers at a step."""
    length: int = 16
    """T, the steps; more than the lag."""

    name: ClassVar[str] = "lag-copy"
    source: ClassVar[str] = "Lizaire et al. 2026"
    chance = 1.0
    memoryless_baseline = 1.0  # of the constant 0: the variance

    def __post_init__(self) -> None:
        check_size("features", self.features)
        check_lag(self.lag, self.length)

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        inputs = normal(self.length, batch_size, self.features, generator=generator)
        return delayed(inputs, inputs, self.lag)
