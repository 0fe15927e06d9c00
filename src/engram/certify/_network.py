"""Recurrent networks without activation in exact numbers: integers, residues or polynomials (spec/depth.md 1)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from flint import nmod

from engram.certify._field import PRIME, Residues, draw

Exact = npt.NDArray[np.object_]


class Layer(NamedTuple):
    """U ``(n, m)``, V ``(n, n)``, b ``(n)``, and A ``(n, m, n)`` for a network of second order."""

    into: Exact
    hidden: Exact
    bias: Exact
    tensor: Exact | None = None


@dataclass(frozen=True)
class Network:
    """h^l_t = A^l x_1 h^l_{t-1} x_2 h^{l-1}_t + V^l h^l_{t-1} + U^l h^{l-1}_t + b^l with h^0_t = x_t.

    (A x_1 h x_2 x)_k = sum_ij A_ijk h_i x_j. Without A a linear RNN; with A alone a BIRNN; with both a 2RNN.
    """

    layers: tuple[Layer, ...]
    start: tuple[Exact, ...]

    def run(self, inputs: Iterable[Exact]) -> list[list[Exact]]:
        """The states of all layers after every step: T lists of L vectors."""
        return list(self.states(inputs))

    def last(self, inputs: Iterable[Exact]) -> Exact:
        """The state of the last layer after the last step; what comes before it is not kept."""
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
    """Python's integers from -9 to 9 that depend on the seed and the purpose alone."""
    return draw(PRIME, seed, purpose, *shape).astype(object) % 19 - 9


def residues(prime: int, seed: int, purpose: int, *shape: int) -> Exact:
    """Random numbers modulo p that stay reduced by themselves."""
    drawn = draw(prime, seed, purpose, *shape)
    result = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        result[place] = nmod(int(drawn[place]), prime)
    return result


def linear(hidden: int, inputs: int, depth: int, seed: int) -> Network:
    """A random linear RNN in integers, with biases and starts."""
    layers = []
    for number in range(depth):
        first = 4 * number
        features = hidden if number else inputs
        layers.append(
            Layer(
                integers(seed, first, hidden, features),
                integers(seed, first + 1, hidden, hidden),
                integers(seed, first + 2, hidden),
            )
        )
    return Network(tuple(layers), tuple(integers(seed, 4 * number + 3, hidden) for number in range(depth)))


def generic(
    hidden: int, inputs: int, depth: int, outputs: int, prime: int, seed: int
) -> tuple[list[tuple[Residues, Residues]], Residues]:
    """U and V of every layer of a linear RNN, and a readout ``(outputs, n)``, drawn modulo p."""
    layers = []
    for number in range(depth):
        features = hidden if number else inputs
        layers.append(
            (draw(prime, seed, 2 * number + 2, hidden, features), draw(prime, seed, 2 * number + 3, hidden, hidden))
        )
    return layers, draw(prime, seed, 1, outputs, hidden)


def bilinear(tensors: Sequence[Exact], start: Sequence[Exact]) -> Network:
    """A BIRNN: the tensors alone."""
    return Network(tuple(Layer(*zeros(*tensor.shape[:2]), tensor) for tensor in tensors), tuple(start))


def zeros(hidden: int, features: int) -> tuple[Exact, Exact, Exact]:
    """U, V and b of a layer that has none."""
    return (
        np.zeros((hidden, features), dtype=object),
        np.zeros((hidden, hidden), dtype=object),
        np.zeros(hidden, dtype=object),
    )


def delta(hidden: int, features: int, rank: int | None = None) -> Exact:
    """A_ijk = 1 if i = j = k (< R, if a rank is given), else 0: h = h * x, entry by entry."""
    tensor = np.zeros((hidden, features, hidden), dtype=object)
    for i in range(min(hidden, features, hidden if rank is None else rank)):
        tensor[i, i, i] = 1
    return tensor


def same(a: Any, b: Any) -> bool:
    """Whether two vectors of exact numbers are equal."""
    return a.shape == b.shape and bool(np.all(a == b))
