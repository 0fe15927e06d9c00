"""Identification of a contractive ReLU network from its inputs and noisy outputs."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.errors import DTypeError, OptionError, check_size
from engram.tasks._range import check_between
from engram.tasks._score import masked_mse
from engram.tasks._seeds import normal, seeded
from engram.tasks._task import Batch, Task

Array = NDArray[np.float64]
ROUNDS, RATE, ON = 100, 0.1, 1e-3  # of the calibration of b; a unit is on above ON
CALIBRATION, MEASURE = 100, 1000  # sequences


class System(NamedTuple):
    """The true system, in float64: h_t = relu(W h_{t-1} + F x_t + b) from h_0 = 0, and y_t = C h_t + N(0, v I)."""

    W: Array
    """``(n, n)``."""
    F: Array
    """``(n, p)``."""
    b: Array
    """``(n,)``."""
    C: Array
    """``(m, n)``."""
    noise: float
    """v = 10^(-snr/10) times the mean of (C h)^2, not centred."""
    variance: float
    """Of the noisy y: the mean over outputs of each one's variance about its mean over all steps."""
    on: Array
    """``(n,)``, the share of the steps at which each unit is on."""


@dataclass(frozen=True)
class ContractiveSystem(Task):
    """Give the outputs of a random contractive ReLU network that is known by its inputs and noisy outputs only.

    W = I - epsilon A'A / |A|^2 (spectral norm), and A, F, C and the inputs are standard normal; b starts so, and is
    moved until each unit is on at the wanted share of steps (spec/unitary-equivalence.md 5). The mean power and the
    variance of the outputs are measured once, on 1000 sequences that depend on the options only.
    Inputs ``(T, B, p)``, targets ``(T, B, m)``, noise included.
    """

    states: int = 4
    """n, the units of the true system."""
    inputs: int = 2
    """p."""
    outputs: int = 2
    """m."""
    epsilon: float = 0.01
    """The contraction: the eigenvalues of W lie in [1 - epsilon, 1)."""
    on: float = 0.6
    """The share of the steps at which a unit is on."""
    snr: float = 20.0
    """The power of the outputs over that of the noise, in dB."""
    length: int = 1000
    """T, the steps."""
    system: int = 0
    """The seed of the true system, the same for all splits and training seeds."""
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
        _weights(self)  # refuses a system that does not contract

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
    def truth(self) -> System:
        """The true system; found once, in about a second."""
        return _system(self)

    @property
    def memoryless_baseline(self) -> float:
        """Of the best constant: the variance of the outputs. (To know the step helps a little: h_0 = 0 shows.)"""
        return self.truth.variance

    @property
    def ceiling(self) -> float:
        """The best R^2 there is: 1 - v / variance, that of the true system itself."""
        return 1 - self.truth.noise / self.truth.variance

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        inputs = normal(self.length, batch_size, self.inputs, generator=generator)
        noise = normal(self.length, batch_size, self.outputs, generator=generator)
        true = torch.from_numpy(_product(self.truth.C, _run(*self.truth[:3], _columns(inputs)))).mT
        targets = true + math.sqrt(self.truth.noise) * noise.double()
        return Batch(inputs, targets.float().contiguous(), torch.ones(targets.shape[:2], dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The mean square error over steps and outputs."""
        return masked_mse(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """R^2 = 1 - mse / variance, with the variance of the task and not of the batch, and the mean square error."""
        mse = float(masked_mse(outputs, batch))
        return {"r2": 1 - mse / self.truth.variance, "mse": mse}


@cache
def _system(task: ContractiveSystem) -> System:
    """Calibrate b with the rule b <- b - 0.1 (share on - wanted), then measure power and variance."""
    W, F, b, C = _weights(task)
    generator = seeded(task.system, "contractive", "calibration")
    trials = _columns(normal(task.length, CALIBRATION, task.inputs, generator=generator))
    for _ in range(ROUNDS):
        b = b - RATE * ((_run(W, F, b, trials) > ON).mean((0, 2)) - task.on)
    states = _run(W, F, b, _columns(normal(task.length, MEASURE, task.inputs, generator=generator)))
    y = _product(C, states)
    noise = float((y**2).mean()) * 10 ** (-task.snr / 10)
    return System(W, F, b, C, noise, float(y.var((0, 2)).mean()) + noise, (states > ON).mean((0, 2)))


def _weights(task: ContractiveSystem) -> tuple[Array, Array, Array, Array]:
    """W, F, the first b, and C, from the seed of the system."""
    generator = seeded(task.system, "contractive", "weights")
    n, p, m = task.states, task.inputs, task.outputs
    A, F, C, b = (_float64(normal(*shape, generator=generator)) for shape in ((n, n), (n, p), (m, n), (n,)))
    norm = round(float(np.linalg.norm(A, 2)) ** 2, 12)  # the last digits depend on the machine
    if not task.normalised and task.epsilon * norm >= 2:
        raise OptionError(
            f"epsilon must be below {2 / norm:.3g} with normalised=False, for this system to contract, "
            f"got {task.epsilon}"
        )
    return np.eye(n) - task.epsilon * _product(A.T, A) / (norm if task.normalised else 1), F, b, C


def _run(W: Array, F: Array, b: Array, x: Array) -> Array:
    """The states ``(T, n, B)`` under inputs ``(T, p, B)``."""
    driven = _product(F, x) + b[:, None]
    weights, h, states = W[:, :, None], np.zeros_like(driven[0]), np.empty_like(driven)
    for t, u in enumerate(driven):
        h = np.maximum((weights * h).sum(1) + u, 0.0, out=states[t])
    return states


def _product(matrix: Array, x: Array) -> Array:
    """``matrix @ x`` over ``(..., k, B)``, added up in order: a library's product depends on the machine."""
    total: Array = sum(matrix[:, k, None] * x[..., k, None, :] for k in range(matrix.shape[1]))  # type: ignore[assignment]
    return total


def _columns(x: Tensor) -> Array:
    """``(T, B, p)`` as ``(T, p, B)``, a sequence a column."""
    return np.ascontiguousarray(_float64(x).swapaxes(1, 2))


def _float64(x: Tensor) -> Any:
    return x.double().numpy()
