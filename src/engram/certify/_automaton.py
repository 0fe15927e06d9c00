"""The claim ``automaton``: weighted automata are linear BIRNNs that read symbols."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, bits, integer_seconds
from engram.convert import WeightedAutomaton
from engram.errors import check_size
from engram.exact import bilinear_network, integers

WORDS = 16
"""Random words that are compared."""


@dataclass(frozen=True)
class AutomatonClaim(Claim):
    """A weighted automaton of n states is a linear BIRNN of n units, and almost none has fewer states.

    The automaton gives the word s_1 ... s_T the value initial A(s_1) ... A(s_T) final; the network reads the word
    one-hot. Both values are computed for random words, at random integer weights, and compared: they are polynomials in
    the weights, so two different ones would agree at random weights only by chance. The rank of the Hankel matrix f(uv)
    over all words u, v is the least number of states. It is at most n for all weights; it is found, over the rationals,
    to be n at these weights, so it is n almost everywhere. Two copies side by side, 2n states, must have the same rank.
    Sources: Lizaire et al. (2026), Definition 2 (BIRNN); the rank: Schützenberger (1961).
    """

    states: int
    """n, the states of the automaton and the units of the network."""
    symbols: int = 2
    """The size of the alphabet."""
    steps: int = 12
    """T, the length of a word."""

    name: ClassVar[str] = "automaton"
    words: ClassVar[str] = "a weighted automaton of n states is a linear BIRNN of n units, and almost none has fewer"
    example: ClassVar[dict[str, int]] = {"states": 4}

    def __post_init__(self) -> None:
        for name in ("states", "symbols", "steps"):
            check_size(name, getattr(self, name))

    def cost(self) -> Cost:
        """Words read by both, in integers that grow with every step; two minimisations over the rationals."""
        n, s, steps = self.states, self.symbols, self.steps
        length = bits(n) * steps
        words = WORDS * steps * (3e-5 + integer_seconds(n**2 * (s + 1) + s, length / 2))
        minimal = 1e-5 * s * (2 * n) ** 2 + 2e-8 * (2 * n) ** 4
        memory = 600 * s * n**2 + 20 * (2 * n) ** 3 + 8 * s**2 + 60 * WORDS * steps + n * length / 2
        return Cost(words + minimal, MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        n, s = self.states, self.symbols
        automaton = WeightedAutomaton(*(integers(seed, k, *shape) for k, shape in enumerate([(n,), (s, n, n), (n,)])))
        network = bilinear_network([automaton.transitions.transpose(1, 0, 2)], [automaton.initial])
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
