"""The claim ``attention-paths``: a gradient through attention and recurrence is a sum over paths."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.errors import OptionError, check_size
from engram.exact import PRIME, residues, sample
from engram.theory import (
    VARIANTS,
    Autograd,
    ClosedForms,
    Differentiation,
    DualNumbers,
    Problem,
    Variant,
    Weights,
    by_recursion,
    differentiate,
    sum_over_paths,
)

INPUTS = 2
"""m, the size of an input."""
EXPLICIT = 7
"""Up to this many steps every path is a term of its own."""
WITHIN = 1e-12
"""How far two numbers in float64 may be apart, per largest number of their array, or per 1 if that is larger."""
SMALLEST = 1_000_000
"""A prime above it makes it unlikely that numbers are equal by chance."""
CHECKS = ("E and F", "paths", "parameters")


@dataclass(frozen=True)
class AttentionPathsClaim(Claim):
    """The derivative ds_{t+k}/dh_t of an attentive recurrence is a sum over all paths, each a product of closed forms.

    Compared are (1) the closed forms of E and F with the partial derivatives of psi, (2) the sum over paths with the
    total derivative: of the closed forms by recursion, and up to 7 steps path by path, (3) the gradients of all
    weights of alignment and recurrence with their lemmas; for additive and dot alignment, s = h + c, (h + c)/2 and
    A h + B c, phi = tanh and identity, full and sparse attention: 24 variants. Twice: against automatic differentiation
    in float64, a measurement; and in exact arithmetic, with dual numbers modulo p, where the values of tanh and exp are
    random residues that obey tanh' = 1 - tanh^2 and exp' = exp. Both sides are rational functions of those values: if
    they differed, they would agree at random ones only by chance, so that equality there is evidence for all weights.
    Source: Kerg (2022), Propositions 4.4.1 = B.1.7 and B.1.12, Lemmas B.1.15 and B.1.16.
    """

    hidden: int
    """n, the size of a state."""
    steps: int
    """T, the steps of a run."""

    name: ClassVar[str] = "attention-paths"
    words: ClassVar[str] = (
        "a gradient through attention and recurrence is a sum over paths (Kerg, Proposition 4.4.1 = B.1.7; B.1.12)"
    )
    example: ClassVar[dict[str, int]] = {"hidden": 2, "steps": 3}

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden)
        check_size("steps", self.steps)

    def cost(self) -> Cost:
        """Of every variant runs with all derivatives, in residues one by one, and in float64 by T n backward passes."""
        n, steps = float(self.hidden), float(self.steps)
        width, pairs = 2 * steps * n + 6 * n**2, steps**2 / 2
        exact = pairs * (4e-4 + 1e-6 * n**2 * width) + steps * pairs * 1e-6 * n**3
        autograd = steps * n * (1e-4 + 2e-5 * steps**2)
        forms = pairs * steps * (1e-4 + 1e-6 * n**3)
        memory = pairs * n * width * 40 + steps**2 * n * 5000
        return Cost(1 + len(VARIANTS) * (exact + autograd + forms), 100 + MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        if prime < SMALLEST:
            raise OptionError(f"prime must be above {SMALLEST:,}, or numbers are equal by chance; got {prime}")
        counts = {"exact": np.zeros((3, 2), dtype=int), "float64": np.zeros((3, 2), dtype=int)}
        for number, variant in enumerate(VARIANTS):
            exact = DualNumbers(prime, seed, 1000 * (number + 1))
            counts["exact"] += compared(variant, self._exact(prime, seed, 20 * number), exact, self.steps)
            counts["float64"] += compared(variant, self._float(seed, 20 * number), Autograd(), self.steps)
        return {
            "variants": len(VARIANTS),
            "compared": counts["exact"][:, 1].tolist(),
            "equal_exactly": counts["exact"][:, 0].tolist(),
            "equal_in_float64": counts["float64"][:, 0].tolist(),
        }

    def _exact(self, prime: int, seed: int, purpose: int) -> Problem:
        shapes = self._shapes()
        return _problem([residues(prime, seed, purpose + i, *shape) for i, shape in enumerate(shapes)])

    def _float(self, seed: int, purpose: int) -> Problem:
        """Uniform from -1/sqrt n to 1/sqrt n, and 1/sqrt n as the scale."""
        numbers = [sample(PRIME, seed, purpose + i, *shape) / PRIME * 2 - 1 for i, shape in enumerate(self._shapes())]
        numbers = [array / self.hidden**0.5 for array in numbers]
        numbers[8] = np.array(self.hidden**-0.5)
        return _problem(numbers)

    def _shapes(self) -> list[tuple[int, ...]]:
        n, steps = self.hidden, self.steps
        square = (n, n)
        return [square, (n, INPUTS), (n,), square, square, (n,), square, square, (), (steps, INPUTS), (steps, n)]

    def _counts(self) -> list[int]:
        """How many numbers each check compares, in all variants."""
        n, steps = self.hidden, self.steps
        pairs = steps * (steps + 1) // 2
        dots = sum(variant.align == "dot" for variant in VARIANTS)
        weights = 3 * n**2 + n * (INPUTS + 2)
        return [
            len(VARIANTS) * n**2 * steps**2,
            len(VARIANTS) * n**2 * pairs * (2 if steps <= EXPLICIT else 1),
            len(VARIANTS) * weights - dots * n,
        ]

    def holds(self, found: Found) -> bool:
        return bool(
            found["variants"] == len(VARIANTS)
            and found["compared"] == self._counts()
            and found["equal_exactly"] == found["equal_in_float64"] == found["compared"]
        )

    def statement(self, found: Found) -> str:
        def told(equal: list[int]) -> str:
            parts = zip(equal, found["compared"], CHECKS, strict=True)
            return ", ".join(f"{good} of {all_} numbers of {name}" for good, all_, name in parts)

        return (
            f"{found['variants']} attentive recurrences of {many(self.hidden, 'unit')}, {many(self.steps, 'step')}: "
            f"derivatives by sums over paths and by closed forms are those of the program, in exact arithmetic at "
            f"random residues for {told(found['equal_exactly'])}; in float64 (measured, not proven) within {WITHIN:g} "
            f"of automatic differentiation for {told(found['equal_in_float64'])}."
        )


def _problem(numbers: list[Any]) -> Problem:
    return Problem(Weights(*numbers[:9]), numbers[9], numbers[10])


def compared(variant: Variant, problem: Problem, how: Differentiation, steps: int) -> Any:
    """How many numbers are equal and how many were compared, ``(3, 2)``: one row per check."""
    true = differentiate(variant, problem, how)
    forms = ClosedForms(variant, problem.weights, problem.inputs, true.run, how.values)
    E = {pair: forms.E(*pair) for pair in true.partial}
    F = {pair: forms.F(*pair) for pair in true.jumps}
    sums = [(by_recursion(lambda *p: E[p], lambda *p: F[p], t, steps), t) for t in range(1, steps + 1)]
    paths = [(C, true.total[t, tau]) for row, t in sums for tau, C in enumerate(row, t)]
    if steps <= EXPLICIT:
        paths += [(sum_over_paths(lambda *p: E[p], lambda *p: F[p], *pair), true.total[pair]) for pair in true.total]
    gradients = {**forms.alignment_gradients(true.by_macro), **forms.recurrent_gradients(true.by_state)}
    return np.array(
        [
            _count([(E[p], true.partial[p]) for p in E] + [(F[p], true.jumps[p]) for p in F]),
            _count(paths),
            _count((gradient, true.by_weight[name]) for name, gradient in gradients.items()),
        ]
    )


def _count(pairs: Iterable[tuple[Any, Any]]) -> list[int]:
    equal = total = 0
    for a, b in pairs:
        equal += int(np.sum(a == b if b.dtype == object else np.abs(a - b) <= WITHIN * max(1.0, np.abs(b).max())))
        total += b.size
    return [equal, total]
