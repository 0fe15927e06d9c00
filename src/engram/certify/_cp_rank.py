"""The claim ``cp-rank``: what one more rank of a factored second-order network adds."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, product_seconds, rank_seconds, sample_seconds
from engram.errors import OptionError, check_size
from engram.exact import Residues, product, sample, times
from engram.exact import rank as matrix_rank


class Factors(NamedTuple):
    """The weights of one CPBIRNN layer, h_t = C ((A^T h_{t-1}) * (B^T x_t)), modulo p."""

    a: Residues
    """A, ``(n, R)``."""
    b: Residues
    """B, ``(m, R)``."""
    c: Residues
    """C, ``(n, R)``."""
    start: Residues
    """h_0, ``(n)``."""


@dataclass(frozen=True)
class CPRankClaim(Claim):
    """If R < n, some CPBIRNN of rank R + 1 computes what none of rank R does.

    h_t = C ((A^T h_{t-1}) * (B^T x_t)), so all states of the last layer lie in the image of C: they span at most R
    dimensions, for all weights. A network of rank R + 1 <= n is found whose states span R + 1 dimensions. The paper
    uses the first step only: the map x_1 -> h_1 has rank at most R, but also at most d, so its argument needs R < d;
    ``first_step`` in the certificate shows both ranks.
    Source: Lizaire et al. (2026), Theorem 4 (Section 3.2, Appendix A.9).
    """

    hidden: int
    """n, the units of a layer."""
    inputs: int
    """d, the size of the input."""
    rank: int
    """R, below n."""
    depth: int = 1
    """L, the layers."""

    name: ClassVar[str] = "cp-rank"
    words: ClassVar[str] = (
        "for R < n, the states of a CPBIRNN of rank R span at most R dimensions, of rank R+1 one more (Lizaire et al., "
        "Theorem 4)"
    )
    example: ClassVar[dict[str, int]] = {"hidden": 5, "inputs": 2, "rank": 3}
    witnesses: ClassVar[tuple[str, ...]] = ("random", "construction")

    def __post_init__(self) -> None:
        for name in ("hidden", "inputs", "rank", "depth"):
            check_size(name, getattr(self, name))
        if self.rank >= self.hidden:
            raise OptionError(f"rank must be below hidden, {self.hidden} (Theorem 4); got rank {self.rank}")

    def cost(self) -> Cost:
        """For each of the two ranks: 2n steps of three products per layer, the span of the states, the first step."""
        n, d, r, layers = self.hidden, self.inputs, self.rank + 1, self.depth
        weights = r * (d + n * (layers - 1)) + 2 * layers * r * n
        steps = product_seconds(6 * n * layers, n, r) + product_seconds(2 * n, r, d)
        first = product_seconds(1, r, d, d) + product_seconds(3 * layers, n, r, d)
        entries = 2 * n**2 + n * d  # given to FLINT as Python numbers
        ranks = 1e-7 * entries + rank_seconds(2 * n, n) + rank_seconds(n, d)
        samples = 3e-4 * layers + 2 * sample_seconds(weights)
        memory = 16 * weights + 60 * entries + 30 * d**2 + 2e3 * layers + 24 * n * d
        return Cost(2 * (steps + first + ranks + samples), MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        ranks = [self.rank, self.rank + 1]
        return {
            "ranks": ranks,
            "span": [span(self._layers(rank, witness, prime, seed), 2 * self.hidden, prime, seed) for rank in ranks],
            "first_step": [first_step_rank(self._layers(rank, "random", prime, seed), prime) for rank in ranks],
        }

    def _layers(self, rank: int, witness: str, prime: int, seed: int) -> list[Factors]:
        widths = [self.inputs] + [self.hidden] * (self.depth - 1)
        if witness == "construction":
            return [running_product(self.hidden, width, rank) for width in widths[:-1]] + [
                cyclic(self.hidden, widths[-1], rank)
            ]
        return [
            Factors(
                sample(prime, seed, 4 * k + 1, self.hidden, rank),
                sample(prime, seed, 4 * k + 2, width, rank),
                sample(prime, seed, 4 * k + 3, self.hidden, rank),
                sample(prime, seed, 4 * k + 4, self.hidden),
            )
            for k, width in enumerate(widths)
        ]

    def holds(self, found: Found) -> bool:
        return bool(found["span"] == found["ranks"])

    def statement(self, found: Found) -> str:
        (less, more), told = found["span"], found["first_step"]
        return (
            f"The states of a CPBIRNN of {many(self.depth, 'layer')} of {self.hidden} units span "
            f"{many(less, 'dimension')} at rank {self.rank}, never more than {self.rank}, and {more} at rank "
            f"{self.rank + 1}. The first step alone, from {many(self.inputs, 'input')}, has rank {told[0]} and "
            f"{told[1]}: the printed argument {'holds here' if told[1] > told[0] else 'does not tell them apart'}."
        )

    def more(self) -> dict[str, Any]:
        return {"printed_argument": self.rank < self.inputs}


def running_product(hidden: int, width: int, rank: int) -> Factors:
    """A layer whose first unit is the product of the first inputs of all steps so far; its other units are 0."""
    a, b, c = (np.zeros((size, rank), dtype=np.uint64) for size in (hidden, width, hidden))
    a[0, 0] = b[0, 0] = c[0, 0] = 1
    return Factors(a, b, c, np.eye(1, hidden, dtype=np.uint64)[0])


def cyclic(hidden: int, width: int, rank: int) -> Factors:
    """A layer with one number in R units: each step multiplies it by the first input and moves it to the next unit."""
    a = np.eye(hidden, rank, dtype=np.uint64)
    b = np.zeros((width, rank), dtype=np.uint64)
    b[0] = 1
    c = np.zeros((hidden, rank), dtype=np.uint64)
    c[(np.arange(rank) + 1) % rank, np.arange(rank)] = 1
    return Factors(a, b, c, np.eye(1, hidden, dtype=np.uint64)[0])


def span(layers: list[Factors], steps: int, prime: int, seed: int) -> int:
    """The dimension spanned by the states of the last layer under random inputs."""
    inputs = sample(prime, seed, 0, steps, len(layers[0].b), 1)  # columns
    states = [layer.start[:, None] for layer in layers]
    seen = []
    for below in inputs:
        for number, layer in enumerate(layers):
            mixed = times(product(layer.a.T, states[number], prime), product(layer.b.T, below, prime), prime)
            states[number] = below = product(layer.c, mixed, prime)
        seen.append(below[:, 0])
    return matrix_rank(np.array(seen), prime)


def first_step_rank(layers: list[Factors], prime: int) -> int:
    """The rank of the map x_1 -> h_1, the product of C diag(A^T h_0) B^T over the layers."""
    matrix = np.eye(len(layers[0].b), dtype=np.uint64)
    for layer in layers:
        scale = product(layer.a.T, layer.start[:, None], prime)
        matrix = product(layer.c, times(scale, product(layer.b.T, matrix, prime), prime), prime)
    return matrix_rank(matrix, prime)
