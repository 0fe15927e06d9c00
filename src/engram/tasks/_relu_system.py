"""A random contractive ReLU network: sampled, calibrated, run and measured in float64, the same on every machine."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engram.errors import OptionError
from engram.tasks._seeds import normal, seeded

Array = NDArray[np.float64]
ROUNDS, RATE, ON = 100, 0.1, 1e-3  # of the calibration of b; a unit is on above ON
CALIBRATION, MEASURE = 100, 1000  # sequences


class Weights(NamedTuple):
    """h_t = relu(W h_{t-1} + F x_t + b) from h_0 = 0, and y_t = C h_t."""

    W: Array
    """``(n, n)``."""
    F: Array
    """``(n, p)``."""
    b: Array
    """``(n,)``."""
    C: Array
    """``(m, n)``."""

    def states(self, x: Array) -> Array:
        """h ``(T, n, B)`` under inputs ``(T, p, B)``."""
        driven = product(self.F, x) + self.b[:, None]
        weights, h, states = self.W[:, :, None], np.zeros_like(driven[0]), np.empty_like(driven)
        for t, u in enumerate(driven):
            h = np.maximum((weights * h).sum(1) + u, 0.0, out=states[t])
        return states


class TrueSystem(NamedTuple):
    """Weights after calibration, and what was measured on 1000 sequences of standard normal inputs."""

    weights: Weights
    power: float
    """The mean of y^2, not centred."""
    variance: float
    """The mean over outputs of each one's variance about its mean over all sequences and steps."""
    on: Array
    """``(n,)``, the share of the steps at which each unit is on."""


def sample_weights(states: int, inputs: int, outputs: int, epsilon: float, seed: int, normalised: bool) -> Weights:
    """W = I - epsilon A'A / |A|^2 (undivided if not ``normalised``); A, F, C and the first b are standard normal."""
    generator = seeded(seed, "contractive", "weights")
    shapes = (states, states), (states, inputs), (outputs, states), (states,)
    A, F, C, b = (normal(*shape, generator=generator).double().numpy() for shape in shapes)
    norm = round(float(np.linalg.norm(A, 2)) ** 2, 12)  # the last digits depend on the machine
    if not normalised and epsilon * norm >= 2:
        limit = f"epsilon must be below {2 / norm:.3g} with normalised=False, for this system to contract"
        raise OptionError(f"{limit}, got {epsilon}")
    return Weights(np.eye(states) - epsilon * product(A.T, A) / (norm if normalised else 1), F, b, C)


@cache
def calibrated(
    states: int, inputs: int, outputs: int, epsilon: float, seed: int, normalised: bool, on: float, length: int
) -> TrueSystem:
    """Move b by -0.1 (share on - ``on``), a hundred times on the same 100 sequences; then measure on 1000 others."""
    weights = sample_weights(states, inputs, outputs, epsilon, seed, normalised)
    generator = seeded(seed, "contractive", "calibration")
    trials = columns(normal(length, CALIBRATION, inputs, generator=generator))
    for _ in range(ROUNDS):
        share = (weights.states(trials) > ON).mean((0, 2))
        weights = weights._replace(b=weights.b - RATE * (share - on))
    h = weights.states(columns(normal(length, MEASURE, inputs, generator=generator)))
    y = product(weights.C, h)
    return TrueSystem(weights, float((y**2).mean()), float(y.var((0, 2)).mean()), (h > ON).mean((0, 2)))


def product(matrix: Array, x: Array) -> Array:
    """``matrix @ x`` over ``(..., k, B)``, added up in order: a library's product depends on the machine."""
    terms: Any = (matrix[:, k, None] * x[..., k, None, :] for k in range(matrix.shape[1]))
    return sum(terms)


def columns(x: Tensor) -> Array:
    """``(T, B, p)`` as ``(T, p, B)``, a sequence per column."""
    return np.ascontiguousarray(x.double().numpy().swapaxes(1, 2))
