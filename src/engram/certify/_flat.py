"""Depth of linear networks taken away and added, in integers (spec/depth.md 4.1, 4.4, 4.5)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flint import nmod_mat

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, bits, integer_seconds, product_seconds, rank_seconds
from engram.certify._delay import largest_lag
from engram.certify._field import product
from engram.certify._network import Layer, Network, generic, integers, linear, same
from engram.convert import flat_weights
from engram.errors import check_size


@dataclass(frozen=True)
class Compared(Claim):
    """Two linear networks with the same states, step by step."""

    hidden: int
    """n, the units of a layer."""
    depth: int
    """L, the layers."""
    inputs: int = 1
    """d, the size of the input."""
    steps: int = 7
    """T, the steps that are compared."""

    example: ClassVar[dict[str, int]] = {"hidden": 3, "depth": 4}

    def __post_init__(self) -> None:
        for name in ("hidden", "depth", "inputs", "steps"):
            check_size(name, getattr(self, name))

    def _run(self, layers: int, width: int, features: int) -> Cost:
        """Layers of so many units, the first of them with so many inputs, run in integers that grow at every step."""
        n, steps = width, self.steps
        weights = n * features + (2 * layers - 1) * n**2
        length = bits(2 * self.hidden) * (steps + self.depth)
        seconds = 2e-5 * steps * layers + steps * integer_seconds(weights, length / 2)
        return Cost(seconds, MB * (40 * (weights + steps * self.inputs) + layers * n * (60 + length / 2)))


@dataclass(frozen=True)
class Flat(Compared):
    """A linear RNN of L layers of n units is one layer of n L units, equal on all inputs (Theorem 6).

    Both networks run on the same random integers, with random integer weights, biases and starts, and the states of all
    layers are compared at every step. The states are polynomials in all these numbers, so two that differ would agree
    at a random point only by chance. Strict for L >= 2: one layer of n L units has a lag of n L - 1 > L (n - 1).
    """

    name: ClassVar[str] = "flat"
    words: ClassVar[str] = "Theorem 6: a linear RNN of L layers of n units is one layer of n L units"

    def cost(self) -> Cost:
        """The deep network, the one layer, and the products that give its weights; most of them are with zeros."""
        units = self.hidden * self.depth
        deep, flat = self._run(self.depth, self.hidden, self.inputs), self._run(1, units, self.inputs)
        wide = self.inputs + units + 1
        seconds = 3e-8 * self.hidden * wide * (self.inputs + units) + integer_seconds(units * wide)
        memory = MB * (8 * self.inputs * wide + 60 * units * wide)
        return Cost(deep.seconds + flat.seconds + seconds, deep.megabytes + flat.megabytes + memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        units = self.hidden * self.depth
        deep = linear(self.hidden, self.inputs, self.depth, seed)
        into, hidden, bias = flat_weights([layer[:3] for layer in deep.layers])
        flat = Network((Layer(into, hidden, bias),), (np.concatenate(deep.start),))
        x = integers(seed, 4 * self.depth, self.steps, self.inputs)
        pairs = zip(deep.states(x), flat.states(x), strict=True)
        return {
            "units": units,
            "equal_steps": sum(same(np.concatenate(states), state) for states, (state,) in pairs),
            "deep_lag": largest_lag(self.hidden, self.depth),
            "flat_lag": largest_lag(units, 1),
        }

    def holds(self, found: Found) -> bool:
        strict = found["flat_lag"] > found["deep_lag"]
        return bool(found["equal_steps"] == self.steps and strict == (self.depth > 1))

    def statement(self, found: Found) -> str:
        return (
            f"A linear RNN of {many(self.depth, 'layer')} of {many(self.hidden, 'unit')} and one layer of "
            f"{many(found['units'], 'unit')} have the same states at {found['equal_steps']} of "
            f"{many(self.steps, 'step')} of {many(self.inputs, 'integer')}. One layer can copy with a lag of "
            f"{found['flat_lag']}, {many(self.depth, 'layer')} with {found['deep_lag']} at most."
        )


@dataclass(frozen=True)
class Deepen(Compared):
    """Every linear RNN of L layers is one of L + 1 layers, and not the other way round (Theorem 1).

    The layer added is U = I, V = 0, b = 0; its states are compared with those of the layer below. Strict: the Hankel
    matrix g_{i+j} of the impulse response has rank n L at most for L layers, and n (L + 1) for random L + 1 layers;
    this holds for n = 1 too, where lags tell nothing.
    """

    name: ClassVar[str] = "deepen"
    words: ClassVar[str] = "Theorem 1: a linear RNN of L layers of n units is one of L + 1 layers, not the reverse"

    def cost(self) -> Cost:
        """Both networks; the impulse response; its Hankel matrix, given to FLINT as Python's numbers."""
        run, side = self._run(self.depth + 1, self.hidden, self.inputs), self.hidden * (self.depth + 1) + 1
        response = product_seconds(4 * side * (self.depth + 1), self.hidden, self.hidden)
        rank = 1e-7 * side**2 + rank_seconds(side, side)
        return Cost(2 * run.seconds + response + rank, 2 * run.megabytes + 50 * MB * side**2)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        deep = linear(self.hidden, self.inputs, self.depth, seed)
        nothing = np.zeros((self.hidden, self.hidden), dtype=object)
        added = Layer(np.eye(self.hidden, dtype=object), nothing, nothing[0])
        deeper = Network((*deep.layers, added), (*deep.start, nothing[0]))
        x = integers(seed, 4 * self.depth, self.steps, self.inputs)
        pairs = zip(deep.states(x), deeper.states(x), strict=True)
        return {
            "equal_steps": sum(same(states[-1], more[-1]) for states, more in pairs),
            "hankel_rank": hankel_rank(self.hidden, self.depth + 1, prime, seed),
            "most_without": self.hidden * self.depth,
        }

    def holds(self, found: Found) -> bool:
        return bool(found["equal_steps"] == self.steps and found["hankel_rank"] > found["most_without"])

    def statement(self, found: Found) -> str:
        return (
            f"A linear RNN of {many(self.depth, 'layer')} of {many(self.hidden, 'unit')} and one with a layer more "
            f"agree at {found['equal_steps']} of {many(self.steps, 'step')} of {many(self.inputs, 'integer')}. Almost "
            f"every impulse response of {self.depth + 1} layers has Hankel rank {found['hankel_rank']}; of "
            f"{many(self.depth, 'layer')} none has more than {found['most_without']}."
        )


def hankel_rank(hidden: int, depth: int, prime: int, seed: int) -> int:
    """The rank of g_{i+j}, 0 <= i, j <= n L, of the impulse response of a random linear RNN modulo p."""
    side = hidden * depth + 1
    layers, readout = generic(hidden, 1, depth, 1, prime, seed)
    states = [np.zeros((hidden, 1), dtype=np.uint64)] * depth  # columns
    response = []
    for step in range(2 * side - 1):
        below = np.full((1, 1), step == 0, dtype=np.uint64)
        for number, (into, back) in enumerate(layers):
            below = (product(back, states[number], prime) + product(into, below, prime)) % np.uint64(prime)
            states[number] = below
        response.append(int(product(readout, below, prime)[0, 0]))
    return int(nmod_mat([response[i : i + side] for i in range(side)], prime).rank())
