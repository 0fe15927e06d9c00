"""Weighted automata are linear BIRNNs that read symbols, in integers (spec/depth.md 1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, bits, integer_seconds
from engram.certify._network import bilinear, integers
from engram.convert import WeightedAutomaton
from engram.errors import check_size

WORDS = 16


@dataclass(frozen=True)
class Automaton(Claim):
    """A weighted automaton of n states is a linear BIRNN of n units, and almost none can do with fewer.

    Random integer weights. The values of random words by the automaton, initial A(s_1) ... A(s_T) final, and by the
    network that reads them one-hot are compared. They are polynomials in the weights, so two that differ would agree at
    a random point only by chance. The rank of the Hankel matrix f(uv) is found over the rationals: it is n at most for
    all weights, and n at one point is n almost everywhere. Two copies side by side, 2 n states, have the same rank.
    """

    states: int
    """n, of the automaton: the units of the network."""
    symbols: int = 2
    """The size of the alphabet."""
    steps: int = 12
    """T, the symbols of a word."""

    name: ClassVar[str] = "automaton"
    words: ClassVar[str] = "a weighted automaton of n states is a linear BIRNN of n units; almost none needs fewer"
    example: ClassVar[dict[str, int]] = {"states": 4}

    def __post_init__(self) -> None:
        for name in ("states", "symbols", "steps"):
            check_size(name, getattr(self, name))

    def cost(self) -> Cost:
        """Words through both, in integers that grow at every step; two minimisations over the rationals."""
        n, s, steps = self.states, self.symbols, self.steps
        length = bits(n) * steps
        words = WORDS * steps * (3e-5 + integer_seconds(n**2 * (s + 1) + s, length / 2))
        minimal = 1e-5 * s * (2 * n) ** 2 + 2e-8 * (2 * n) ** 4
        memory = 600 * s * n**2 + 20 * (2 * n) ** 3 + 8 * s**2 + 60 * WORDS * steps + n * length / 2
        return Cost(words + minimal, MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        n, s = self.states, self.symbols
        automaton = WeightedAutomaton(*(integers(seed, k, *shape) for k, shape in enumerate([(n,), (s, n, n), (n,)])))
        network = bilinear([automaton.transitions.transpose(1, 0, 2)], [automaton.initial])
        one_hot = np.eye(s, dtype=int).astype(object)
        words = integers(seed, 3, WORDS, self.steps) % s
        values = [network.last(one_hot[symbol] for symbol in word) @ automaton.final for word in words]
        return {
            "compared_words": WORDS,
            "equal_words": sum(automaton.value(word) == value for word, value in zip(words, values, strict=True)),
            "hankel_rank": automaton.minimise().states,
            "rank_of_two_copies": _twice(automaton).minimise().states,
        }

    def holds(self, found: Found) -> bool:
        ranks = found["hankel_rank"], found["rank_of_two_copies"]
        return bool(found["equal_words"] == found["compared_words"] and ranks == (self.states, self.states))

    def statement(self, found: Found) -> str:
        return (
            f"A weighted automaton of {many(self.states, 'state')} over {many(self.symbols, 'symbol')} and a linear "
            f"BIRNN of {many(self.states, 'unit')} give the same integers for {found['equal_words']} of "
            f"{found['compared_words']} words of {many(self.steps, 'symbol')}. Almost every such function has Hankel "
            f"rank {found['hankel_rank']}: no automaton of it, and no linear BIRNN of one layer, is smaller."
        )


def _twice(automaton: WeightedAutomaton) -> WeightedAutomaton:
    """Two copies side by side: twice the function."""
    both = [np.kron(np.eye(2, dtype=int).astype(object), move) for move in automaton.transitions]
    return WeightedAutomaton(np.tile(automaton.initial, 2), np.stack(both), np.tile(automaton.final, 2))
