"""What the claims ``flat`` and ``deepen`` have in common: two linear networks, compared step by step."""

from dataclasses import dataclass
from typing import ClassVar

from engram.certify._claim import Claim
from engram.certify._cost import MB, Cost, bits, integer_seconds
from engram.errors import check_size


@dataclass(frozen=True)
class ComparedClaim(Claim):
    """Two linear networks run on the same random integers; their states are compared at every step.

    The states are polynomials in weights, biases, initial states and inputs, all of them random integers, so two
    different ones would agree at random numbers only by chance.
    """

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
        """Of a run of this many layers, units and inputs, in integers that grow with every step."""
        n, steps = width, self.steps
        weights = n * features + (2 * layers - 1) * n**2
        length = bits(2 * self.hidden) * (steps + self.depth)
        seconds = 2e-5 * steps * layers + steps * integer_seconds(weights, length / 2)
        return Cost(seconds, MB * (40 * (weights + steps * self.inputs) + layers * n * (60 + length / 2)))
