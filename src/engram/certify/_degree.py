"""The claim ``degree``: the degree of a linear second-order network in its inputs."""

from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np
from flint import nmod, nmod_poly

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, binomial
from engram.errors import OptionError, check_size
from engram.exact import Exact, ExactNetwork, bilinear_network, degree_of, delta, residues


def degree(steps: int, depth: int) -> int:
    """C(T + L - 1, L), the total degree of h^L_T: D(l, t) = D(l, t - 1) + D(l - 1, t) with D(0, t) = 1, D(l, 0) = 0."""
    return comb(steps + depth - 1, depth)


def degree_in(step: int, steps: int, depth: int) -> int:
    """C(T - s + L - 1, L - 1), the degree of h^L_T in x_s alone."""
    return comb(steps - step + depth - 1, depth - 1)


@dataclass(frozen=True)
class DegreeClaim(Claim):
    """After T steps a linear BIRNN of L layers is a polynomial of degree C(T + L - 1, L) in its inputs.

    No weights give more, by the recursion in :func:`degree`. That almost all weights give as much is found in two ways,
    on a random line x_s = u_s + z v_s: by computing with polynomials in z, and from the values at z = 0, 1, ... by
    differences. The degree in x_s alone is found on a line on which only x_s changes. The paper bounds the degree by
    T^L and calls it exponential in depth; for fixed T it is a polynomial in L.
    Source: Lizaire et al. (2026), Section 3.2 and Appendix A.6.
    """

    steps: int
    """T, the length of a sequence."""
    depth: int
    """L, the layers."""
    hidden: int = 2
    """n, the units of a layer."""
    inputs: int = 2
    """d, the size of the input."""

    name: ClassVar[str] = "degree"
    words: ClassVar[str] = (
        "a linear BIRNN of L layers has degree C(T+L-1, L) in its inputs after T steps (Lizaire et al., A.6: <= T^L)"
    )
    example: ClassVar[dict[str, int]] = {"steps": 4, "depth": 3}
    witnesses: ClassVar[tuple[str, ...]] = ("random", "construction")

    def __post_init__(self) -> None:
        for name in ("steps", "depth", "hidden", "inputs"):
            check_size(name, getattr(self, name))

    def cost(self) -> Cost:
        """Runs in polynomials, one for all steps and one for each; runs in residues, two more than the degree."""
        most = binomial(self.steps + self.depth - 1, self.depth)
        weights = self.hidden**2 * (self.inputs + self.hidden * (self.depth - 1))
        once = self.steps * (5e-5 * self.depth + 5e-7 * weights)
        polynomials = (self.steps + 1) * (once + self.steps * weights * 1e-8 * most)
        values = (most + 2) * (once + 1e-5 + 3e-9 * most)
        return Cost(
            polynomials + values + 4e-6 * weights,
            MB * (200 * weights + 100 * most + self.hidden * self.depth * 20 * most + 300 * self.steps * self.inputs),
        )

    def find(self, witness: str, prime: int, seed: int) -> Found:
        most = degree(self.steps, self.depth)
        if prime <= most + 2:
            raise OptionError(f"prime must be above {most + 2}, the degree plus 2; got {prime}")
        network = self._network(witness, prime, seed)
        base, along = (residues(prime, seed, purpose, self.steps, self.inputs) for purpose in (1, 2))
        symbolic = [
            polynomial_degree(network, base, np.where(mask[:, None], along, 0 * along), prime)
            for mask in [np.ones(self.steps, dtype=bool), *np.eye(self.steps, dtype=bool)]
        ]
        values = [int(network.last(base + nmod(z, prime) * along)[0]) for z in range(most + 2)]
        return {"degree": symbolic[0], "evaluated": degree_of(values, prime), "in_each_step": symbolic[1:]}

    def _network(self, witness: str, prime: int, seed: int) -> ExactNetwork:
        widths = [self.inputs] + [self.hidden] * (self.depth - 1)
        if witness == "construction":  # h_t = h_{t-1} * x_t elementwise, h_0 = 1
            ones = np.array([nmod(1, prime)] * self.hidden, dtype=object)
            return bilinear_network([delta(self.hidden, width) for width in widths], [ones] * self.depth)
        return bilinear_network(
            [residues(prime, seed, 2 * k + 3, self.hidden, width, self.hidden) for k, width in enumerate(widths)],
            [residues(prime, seed, 2 * k + 4, self.hidden) for k in range(self.depth)],
        )

    def holds(self, found: Found) -> bool:
        each = [degree_in(step, self.steps, self.depth) for step in range(1, self.steps + 1)]
        total = degree(self.steps, self.depth)
        return bool(found["degree"] == found["evaluated"] == total and found["in_each_step"] == each)

    def statement(self, found: Found) -> str:
        return (
            f"After {many(self.steps, 'step')} of {many(self.inputs, 'number')} almost every linear BIRNN of "
            f"{many(self.depth, 'layer')} of {many(self.hidden, 'unit')} is a polynomial of degree {found['degree']} "
            f"in its inputs, and none is of a higher one; in the first input alone the degree is "
            f"{found['in_each_step'][0]}. The printed bound is {self.steps}^{self.depth}."
        )

    def more(self) -> dict[str, Any]:
        return {"printed_bound": f"{self.steps}^{self.depth}"}


def polynomial_degree(network: ExactNetwork, base: Exact, along: Exact, prime: int) -> int:
    """The degree in z of the first unit of the last layer after the last step, under the inputs base + z along."""
    line = np.empty(base.shape, dtype=object)
    for place in np.ndindex(base.shape):
        line[place] = nmod_poly([int(base[place]), int(along[place])], prime)
    return int(network.last(line)[0].degree())
