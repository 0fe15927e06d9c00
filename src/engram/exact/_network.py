"""Recurrent networks without activation in exact numbers: integers, residues or polynomials.

Source: Lizaire et al. (2026), Section 2, Definitions 1 and 2.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from flint import nmod

from engram.exact._field import PRIME, Residues, sample

Exact = npt.NDArray[np.object_]


class ExactLayer(NamedTuple):
    """The weights of one layer of n units with m inputs."""

    into: Exact
    """U, ``(n, m)``."""
    hidden: Exact
    """V, ``(n, n)``."""
    bias: Exact
    """b, ``(n)``."""
    tensor: Exact | None = None
    """A, ``(n, m, n)``, of a network of second order; None for a linear RNN."""


@dataclass(frozen=True)
class ExactNetwork:
    """h^l_t = A^l x_1 h^l_{t-1} x_2 h^{l-1}_t + V^l h^l_{t-1} + U^l h^{l-1}_t + b^l with h^0_t = x_t.

    (A x_1 h x_2 x)_k = sum_ij A_ijk h_i x_j. Without A this is a linear RNN, with A alone a BIRNN, with both a 2RNN.
    """

    layers: tuple[ExactLayer, ...]
    """The weights, from the first layer up."""
    start: tuple[Exact, ...]
    """h^l_0 of every layer, ``(n)``."""

    def run(self, inputs: Iterable[Exact]) -> list[list[Exact]]:
        """The states of all layers after every step: T lists of L vectors."""
        return list(self.states(inputs))

    def last(self, inputs: Iterable[Exact]) -> Exact:
        """The state of the last layer after the last step, in the memory of one step."""
        for states in self.states(inputs):
            result = states[-1]
        return result

    def states(self, inputs: Iterable[Exact]) -> Iterator[list[Exact]]:
        """The states of all layers, step by step."""
        states = list(self.start)
        for below in inputs:
            for number, (into, hidden, bias, tensor) in enumerate(self.layers):
                new = hidden @ states[number] + into @ below + bias
                if tensor is not None:
                    units, features, _ = tensor.shape
                    new = new + below @ (states[number] @ tensor.reshape(units, -1)).reshape(features, units)
                states[number] = below = new
            yield list(states)


def integers(seed: int, purpose: int, *shape: int) -> Exact:
    """Random Python integers from -9 to 9, the same on every machine (:func:`engram.exact.sample`).

    Args:
        seed: random seed of the numbers.
        purpose: a number for each array sampled from one seed, so that the arrays differ.
        shape: of the array.
    """
    return sample(PRIME, seed, purpose, *shape).astype(object) % 19 - 9


def residues(prime: int, seed: int, purpose: int, *shape: int) -> Exact:
    """Random residues as FLINT's ``nmod`` numbers, whose sums and products are taken modulo p.

    Args:
        prime: p.
        seed: random seed of the numbers.
        purpose: a number for each array sampled from one seed, so that the arrays differ.
        shape: of the array.
    """
    sampled = sample(prime, seed, purpose, *shape)
    result = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        result[place] = nmod(int(sampled[place]), prime)
    return result


def random_linear_rnn(hidden: int, inputs: int, depth: int, seed: int) -> ExactNetwork:
    """A linear RNN with random integer weights, biases and initial states.

    Args:
        hidden: n, the units of a layer.
        inputs: m, the numbers of an input.
        depth: L, the layers.
        seed: random seed of the numbers.
    """
    layers = []
    for number in range(depth):
        first = 4 * number
        features = hidden if number else inputs
        layers.append(
            ExactLayer(
                integers(seed, first, hidden, features),
                integers(seed, first + 1, hidden, hidden),
                integers(seed, first + 2, hidden),
            )
        )
    return ExactNetwork(tuple(layers), tuple(integers(seed, 4 * number + 3, hidden) for number in range(depth)))


def random_linear_weights(
    hidden: int, inputs: int, depth: int, outputs: int, prime: int, seed: int
) -> tuple[list[tuple[Residues, Residues]], Residues]:
    """Random residues as U and V of every layer of a linear RNN, and as a readout ``(outputs, n)``.

    Args:
        hidden: n, the units of a layer.
        inputs: m, the numbers of an input.
        depth: L, the layers.
        outputs: the rows of the readout.
        prime: p.
        seed: random seed of the numbers.
    """
    layers = []
    for number in range(depth):
        features = hidden if number else inputs
        layers.append(
            (sample(prime, seed, 2 * number + 2, hidden, features), sample(prime, seed, 2 * number + 3, hidden, hidden))
        )
    return layers, sample(prime, seed, 1, outputs, hidden)


def bilinear_network(tensors: Sequence[Exact], start: Sequence[Exact]) -> ExactNetwork:
    """The BIRNN with these tensors A^l, ``(n, m, n)``, and initial states.

    Args:
        tensors: A^l of each layer, ``(n, m, n)``.
        start: h^l_0 of each layer, ``(n)``.
    """
    return ExactNetwork(tuple(ExactLayer(*zeros(*tensor.shape[:2]), tensor) for tensor in tensors), tuple(start))


def zeros(hidden: int, features: int) -> tuple[Exact, Exact, Exact]:
    """U, V and b that are zero."""
    return (
        np.zeros((hidden, features), dtype=object),
        np.zeros((hidden, hidden), dtype=object),
        np.zeros(hidden, dtype=object),
    )


def delta(hidden: int, features: int, rank: int | None = None) -> Exact:
    """A_ijk = 1 if i = j = k (and k < R, if a rank R is given), else 0: the step is h_t = h_{t-1} * x_t elementwise.

    Args:
        hidden: n, the units.
        features: m, the numbers of an input.
        rank: R; default: no limit.
    """
    tensor = np.zeros((hidden, features, hidden), dtype=object)
    for i in range(min(hidden, features, hidden if rank is None else rank)):
        tensor[i, i, i] = 1
    return tensor


def same(a: Any, b: Any) -> bool:
    """Whether two vectors of exact numbers, a and b, are equal."""
    return a.shape == b.shape and bool(np.all(a == b))
