"""The claim ``deepen``: one more layer of a linear RNN keeps what it computes, and adds to it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.certify._claim import Found, many
from engram.certify._compared import ComparedClaim
from engram.certify._cost import MB, Cost, product_seconds, rank_seconds
from engram.exact import (
    ExactLayer,
    ExactNetwork,
    integers,
    product,
    random_linear_rnn,
    random_linear_weights,
    same,
)
from engram.exact import rank as matrix_rank


@dataclass(frozen=True)
class DeepenClaim(ComparedClaim):
    """Every linear RNN of L layers is one of L + 1 layers, but not the reverse.

    The added layer has U = I, V = 0, b = 0; its states are compared with those of the layer below. Not the reverse: the
    Hankel matrix g_{i+j} of the impulse response g has rank at most nL for L layers, and n (L + 1) for random L + 1
    layers. This is true for n = 1 too, where the paper's argument by lags says nothing.
    Source: Lizaire et al. (2026), Theorem 1 (Section 3.1, Appendix A.3).
    """

    name: ClassVar[str] = "deepen"
    words: ClassVar[str] = (
        "a linear RNN of L layers of n units is one of L + 1 layers, not the reverse (Lizaire et al., Theorem 1)"
    )

    def cost(self) -> Cost:
        """Both networks; the impulse response; its Hankel matrix, given to FLINT as Python numbers."""
        run, side = self._run(self.depth + 1, self.hidden, self.inputs), self.hidden * (self.depth + 1) + 1
        response = product_seconds(4 * side * (self.depth + 1), self.hidden, self.hidden)
        rank = 1e-7 * side**2 + rank_seconds(side, side)
        return Cost(2 * run.seconds + response + rank, 2 * run.megabytes + 50 * MB * side**2)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        deep = random_linear_rnn(self.hidden, self.inputs, self.depth, seed)
        nothing = np.zeros((self.hidden, self.hidden), dtype=object)
        added = ExactLayer(np.eye(self.hidden, dtype=object), nothing, nothing[0])
        deeper = ExactNetwork((*deep.layers, added), (*deep.start, nothing[0]))
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
    layers, readout = random_linear_weights(hidden, 1, depth, 1, prime, seed)
    states = [np.zeros((hidden, 1), dtype=np.uint64)] * depth  # columns
    response = []
    for step in range(2 * side - 1):
        below = np.full((1, 1), step == 0, dtype=np.uint64)
        for number, (into, back) in enumerate(layers):
            below = (product(back, states[number], prime) + product(into, below, prime)) % np.uint64(prime)
            states[number] = below
        response.append(int(product(readout, below, prime)[0, 0]))
    return matrix_rank(np.array([response[i : i + side] for i in range(side)], dtype=np.uint64), prime)
