"""The claim ``attention-sparse``: what sparse attention over chains of relays leaves of a gradient."""

from dataclasses import dataclass
from math import log2
from typing import ClassVar

from flint import fmpq, fmpq_poly

from engram.certify._claim import Claim, Found, many, rational
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.theory import Pattern, random_pattern, relay_chain

PATTERNS = 8
"""Random patterns of attention that are looked at."""


@dataclass(frozen=True)
class AttentionSparseClaim(Claim):
    """With kappa states attended at each step and d relays the gradient is lambda^d kappa^-(d+1), not kappa^-d.

    p(lambda) is computed as a polynomial with rational coefficients, so that the numbers are about every eigenvalue.
    A chain of relays (:func:`engram.theory.relay_chain`) has p = lambda^d (1/kappa + lambda^g)^(d+1): its lowest term,
    the relays alone, is (lambda/kappa)^d / kappa, and all others have passed the recurrence g times more. In random
    patterns (:func:`engram.theory.random_pattern`) a step with s <= d relays between it and h_t has
    chi(s) >= kappa^-(s+1); no coefficient is negative, so p >= lambda^s kappa^-(s+1) for all lambda > 0. With d and
    lambda given and kappa free, no constant times kappa^-d is below lambda^d kappa^-(d+1).
    Source: Kerg (2022), Theorem 4.4.3 = B.1.39, which has kappa^-d, and Eq. B.1.286, where exponent d + 1 becomes d.
    """

    attended: int
    """kappa, the states that a step attends to."""
    depth: int
    """d, the relays."""
    gap: int = 6
    """g, the steps from one relay to the next."""
    steps: int = 30
    """T, the length of the random patterns."""

    name: ClassVar[str] = "attention-sparse"
    words: ClassVar[str] = (
        "kappa-sparse attention over d relays: the gradient is lambda^d kappa^-(d+1) (Kerg, Theorem 4.4.3: kappa^-d)"
    )
    example: ClassVar[dict[str, int]] = {"attended": 4, "depth": 3}

    def __post_init__(self) -> None:
        check_size("attended", self.attended)
        check_size("depth", self.depth, least=0)
        check_size("gap", self.gap)
        check_size("steps", self.steps)

    def cost(self) -> Cost:
        """One polynomial per step of the chain, and of every random pattern a sum of kappa of them per step."""
        steps, longer = float(self.steps), log2(self.attended + 1) / 64
        chain = (self.depth + 1) * (self.gap + 1.0)
        words = 1 + self.depth * longer
        seconds = chain * (2e-5 + 4e-8 * chain * words) + 1e-6 * chain * self.attended
        sums = min(steps, self.attended) * (5e-7 + 5e-9 * steps * (1 + steps * longer))
        random = steps * (5e-6 + 1e-7 * (self.attended + steps) + 1e-6 * self.attended + sums)
        memory = 8 * chain**2 * words + 60 * self.attended * (3 + steps) + 8 * steps**2 * (1 + steps * longer)
        return Cost(seconds + PATTERNS * random, 20 + MB * (memory + 200 * chain))

    def find(self, witness: str, prime: int, seed: int) -> Found:
        x, share = fmpq_poly([0, 1]), fmpq(1, self.attended)
        *_, chain = relay_chain(self.attended, self.depth, self.gap).responses(x)
        terms = [(power, str(number)) for power, number in enumerate(chain.coeffs()) if number]
        checked = [self._check(random_pattern(self.attended, self.depth, self.steps, seed, i)) for i in range(PATTERNS)]
        depths = [depth for rows in checked for depth, _ in rows]
        return {
            "relays": list(terms[0]),
            "closed_form": bool(chain == x**self.depth * (share + x**self.gap) ** (self.depth + 1)),
            "second_power": terms[1][0],
            "gradients_of_depth": [depths.count(depth) for depth in range(self.depth + 1)],
            "least": str(min(ratio for rows in checked for _, ratio in rows)),
        }

    def _check(self, pattern: Pattern) -> list[tuple[int, fmpq]]:
        """For every step its depth s, and chi(s) kappa^(s+1), which is to be 1 or more."""
        depths = [depth for depth in pattern.depths() if depth is not None]
        return [
            (depth, p[depth] * self.attended ** (depth + 1))
            for depth, p in zip(depths, pattern.responses(fmpq_poly([0, 1])), strict=True)
        ]

    def holds(self, found: Found) -> bool:
        lowest = [self.depth, str(fmpq(1, self.attended ** (self.depth + 1)))]
        return bool(
            found["relays"] == lowest
            and found["closed_form"]
            and found["second_power"] == self.depth + self.gap
            and len(found["gradients_of_depth"]) == self.depth + 1
            and sum(found["gradients_of_depth"]) == PATTERNS * self.steps
            and rational(found["least"]) >= 1
        )

    def statement(self, found: Found) -> str:
        d, kappa = self.depth, self.attended
        return (
            f"With {many(kappa, 'state')} attended at each step, a chain of {many(d, 'relay')} leaves of the gradient "
            f"in the direction of an eigenvalue lambda exactly lambda^{d} {kappa}^-{d + 1}, where Theorem 4.4.3 has "
            f"{kappa}^-{d}; together with the recurrence, lambda^{d} (1/{kappa} + lambda^{self.gap})^{d + 1}. In "
            f"{PATTERNS} random patterns of depth {d} each of {sum(found['gradients_of_depth'])} gradients, over "
            f"lambda^s {kappa}^-(s+1), is at least {found['least']} for every lambda > 0; s <= {d} are its relays."
        )
