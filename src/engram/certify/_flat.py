"""The claim ``flat``: a deep linear RNN is one wider layer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.certify._claim import Found, many
from engram.certify._compared import ComparedClaim
from engram.certify._cost import MB, Cost, integer_seconds
from engram.convert import flat_weights
from engram.exact import ExactLayer, ExactNetwork, integers, random_linear_rnn, same
from engram.theory import largest_lag


@dataclass(frozen=True)
class FlatClaim(ComparedClaim):
    """A linear RNN of L layers of n units is one layer of nL units with the same states; for L >= 2 not the reverse.

    The states of all layers are compared at every step. Not the reverse: one layer of nL units copies with a lag of
    nL - 1, L layers of n units only with L (n - 1).
    Source: Lizaire et al. (2026), Proposition 1 (Section 3.1) and Theorem 6 (Appendix A.4).
    """

    name: ClassVar[str] = "flat"
    words: ClassVar[str] = "a linear RNN of L layers of n units is one layer of n L units (Lizaire et al., Theorem 6)"

    def cost(self) -> Cost:
        """The deep network, the one layer, and the products that give its weights; most factors are zero."""
        units = self.hidden * self.depth
        deep, flat = self._run(self.depth, self.hidden, self.inputs), self._run(1, units, self.inputs)
        wide = self.inputs + units + 1
        seconds = 3e-8 * self.hidden * wide * (self.inputs + units) + integer_seconds(units * wide)
        memory = MB * (8 * self.inputs * wide + 60 * units * wide)
        return Cost(deep.seconds + flat.seconds + seconds, deep.megabytes + flat.megabytes + memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        units = self.hidden * self.depth
        deep = random_linear_rnn(self.hidden, self.inputs, self.depth, seed)
        into, hidden, bias = flat_weights([layer[:3] for layer in deep.layers])
        flat = ExactNetwork((ExactLayer(into, hidden, bias),), (np.concatenate(deep.start),))
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
