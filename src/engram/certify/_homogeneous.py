"""The claim ``homogeneous``: a counterexample to a printed theorem about the depth of second-order networks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flint import nmod

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.exact import Exact, bilinear_network, residues

SCALE = 5
"""c, by which the first input is multiplied."""


@dataclass(frozen=True)
class HomogeneousClaim(Claim):
    """Without residual connections, no BIRNN of L layers is a BIRNN of L + 1 layers, unless its second state is 0.

    The paper states the opposite: every BIRNN of depth L is one of depth L + 1. But h^L_2 is homogeneous in x_1 of
    degree exactly L: with c x_1 in place of x_1 it is c^L times as large, for all weights. A function of both depths
    would satisfy c^L f = c^{L+1} f, so it is 0. The inclusion is true for 2RNNs, and for BIRNNs with residual
    connections, which the paper's proof uses.
    Source: Lizaire et al. (2026), Theorem 3 and Corollary 1 (Section 3.2, Appendices A.7 and A.8).
    """

    depth: int
    """L, the layers."""
    hidden: int = 2
    """n, the units of a layer."""
    inputs: int = 2
    """d, the size of the input."""
    rank: int = 0
    """R, the rank of the factored tensors of a CPBIRNN; default: 0, full tensors."""

    name: ClassVar[str] = "homogeneous"
    words: ClassVar[str] = (
        "without residual connections no BIRNN of L layers is one of L + 1 (corrects Lizaire et al., Theorem 3)"
    )
    example: ClassVar[dict[str, int]] = {"depth": 2}

    def __post_init__(self) -> None:
        for name in ("depth", "hidden", "inputs"):
            check_size(name, getattr(self, name))
        check_size("rank", self.rank, least=0)

    def cost(self) -> Cost:
        """Tensors of residues for both depths (with a rank, computed from factors); two steps, twice."""
        layers, n = 2 * self.depth + 1, self.hidden
        entries = n**2 * (2 * self.inputs + n * (layers - 2))
        factors = self.rank * (2 * self.inputs + 3 * n * layers)
        seconds = 3e-4 * layers + 4e-6 * entries + 6e-7 * entries * self.rank + 2e-6 * factors
        return Cost(seconds, MB * (4e3 * layers + 100 * entries + 100 * factors))

    def find(self, witness: str, prime: int, seed: int) -> Found:
        return {"scale": SCALE, "powers": [self._power(depth, prime, seed) for depth in (self.depth, self.depth + 1)]}

    def _power(self, depth: int, prime: int, seed: int) -> int | None:
        """The k with h_2(c x_1, x_2) = c^k h_2(x_1, x_2) at random weights; None if no k <= depth + 1 fits."""
        widths = [self.inputs] + [self.hidden] * (depth - 1)
        tensors = [self._tensor(width, prime, seed, 3 * k + 10) for k, width in enumerate(widths)]
        network = bilinear_network(tensors, [residues(prime, seed, 10_000 + k, self.hidden) for k in range(depth)])
        first, second = residues(prime, seed, 1, 2, self.inputs)
        unscaled, scaled = (network.last([x, second]) for x in (first, SCALE * first))
        power = nmod(1, prime)
        for k in range(depth + 2):
            if unscaled.any() and all(scaled == power * unscaled):
                return k
            power *= SCALE
        return None

    def _tensor(self, width: int, prime: int, seed: int, purpose: int) -> Exact:
        if not self.rank:
            return residues(prime, seed, purpose, self.hidden, width, self.hidden)
        sizes = (self.hidden, width, self.hidden)
        factors = [residues(prime, seed, purpose + mode, size, self.rank) for mode, size in enumerate(sizes)]
        return np.einsum("ir,jr,kr->ijk", *factors)

    def holds(self, found: Found) -> bool:
        return bool(found["powers"] == [self.depth, self.depth + 1])

    def statement(self, found: Found) -> str:
        kind = f"CPBIRNN of rank {self.rank}" if self.rank else "BIRNN"
        kind += f" with {many(self.hidden, 'unit')} a layer and {many(self.inputs, 'input')}"
        return (
            f"With {found['scale']} x_1 in place of x_1 the second state of a {kind} is {found['scale']}^"
            f"{found['powers'][0]} times as large at depth {self.depth}, {found['scale']}^{found['powers'][1]} times "
            f"at depth {self.depth + 1}: without residual connections, only functions that are 0 there have both "
            f"depths."
        )
