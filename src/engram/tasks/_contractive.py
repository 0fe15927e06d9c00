"""Identification of a contractive ReLU network from its inputs and noisy outputs."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engram.errors import DTypeError, check_between, check_size
from engram.tasks._relu_system import TrueSystem, calibrated, columns, product, sample_weights
from engram.tasks._score import masked_mse
from engram.tasks._seeds import normal
from engram.tasks._task import Batch, Task


@dataclass(frozen=True)
class ContractiveSystem(Task):
    """Predict the outputs of a random contractive ReLU network, of which only inputs and noisy outputs are seen.

    h_t = relu(W h_{t-1} + F x_t + b) and y_t = C h_t + N(0, v I), with W = I - epsilon A'A / |A|^2 (spectral norm);
    A, F, C and the inputs are standard normal; b starts so, and is moved until each unit is on at the wanted share of
    steps. v = 10^(-snr/10) times the mean of (C h)^2, not centred.
    Inputs ``(T, B, p)``, targets ``(T, B, m)``, noise included. Source: Emami et al. (2019), the synthetic
    data of the poster.
    """

    states: int = 4
    """n, the units of the true system."""
    inputs: int = 2
    """p, the numbers that enter at a step."""
    outputs: int = 2
    """m, the numbers to predict at a step."""
    epsilon: float = 0.01
    """The contraction: the eigenvalues of W lie in [1 - epsilon, 1)."""
    on: float = 0.6
    """The share of the steps at which a unit is on."""
    snr: float = 20.0
    """The power of the outputs over that of the noise, in dB."""
    length: int = 1000
    """T, the steps."""
    system: int = 0
    """Random seed of the true system, the same for all splits and training seeds."""
    normalised: bool = True
    """Divide by the squared norm of A (the poster), or not (the script: faster contraction)."""

    name: ClassVar[str] = "contractive"
    source: ClassVar[str] = "Emami et al. 2019"
    metric: ClassVar[str] = "r2"
    chance = 0.0

    def __post_init__(self) -> None:
        for name in ("states", "inputs", "outputs", "length"):
            check_size(name, getattr(self, name))
        check_size("system", self.system, least=0)
        check_between("epsilon", self.epsilon, 0, 1)
        check_between("on", self.on, 0, 1)
        check_between("snr", self.snr, -math.inf, math.inf)
        if not isinstance(self.normalised, bool):
            raise DTypeError(f"normalised must be True or False, got {self.normalised!r}")
        sample_weights(*self._weight_options)  # refuses a system that does not contract

    @property
    def _weight_options(self) -> tuple[int, int, int, float, int, bool]:
        return self.states, self.inputs, self.outputs, self.epsilon, self.system, self.normalised

    @property
    def input_size(self) -> int:
        return self.inputs

    @property
    def output_size(self) -> int:
        return self.outputs

    @property
    def steps(self) -> int:
        return self.length

    @property
    def truth(self) -> TrueSystem:
        """The true system; found once in a process, in about a second."""
        return calibrated(*self._weight_options, self.on, self.length)

    @property
    def noise(self) -> float:
        """v, the variance of the noise."""
        return self.truth.power * 10 ** (-self.snr / 10)

    @property
    def memoryless_baseline(self) -> float:
        """Of the best constant: the variance of the noisy outputs, each about its mean, averaged over outputs.

        Measured once, on 1000 fixed sequences. To know the step as well, h_0 = 0, gains less than a hundredth.
        """
        return self.truth.variance + self.noise

    @property
    def ceiling(self) -> float:
        """The best R^2 there is, that of the true system: 1 - v / variance."""
        return 1 - self.noise / self.memoryless_baseline

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        inputs = normal(self.length, batch_size, self.inputs, generator=generator)
        noise = normal(self.length, batch_size, self.outputs, generator=generator)
        weights = self.truth.weights
        clean = torch.from_numpy(product(weights.C, weights.states(columns(inputs)))).mT
        targets = (clean + math.sqrt(self.noise) * noise.double()).float().contiguous()
        return Batch(inputs, targets, torch.ones(targets.shape[:2], dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The mean square error over steps and outputs."""
        return masked_mse(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """R^2 = 1 - mse / variance, with the variance of the task and not of the batch, and the mean square error."""
        mse = float(masked_mse(outputs, batch))
        return {"r2": 1 - mse / self.memoryless_baseline, "mse": mse}
