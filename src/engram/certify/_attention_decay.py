"""The claim ``attention-decay``: under uniform attention gradients may decay faster than 1/T, but as a power of T."""

from dataclasses import dataclass
from fractions import Fraction
from math import log, log2
from typing import ClassVar

from flint import fmpq

from engram.certify._claim import Claim, Found, rational
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.theory import EIGENVALUES, EIGENVALUES_OF_MEANS, NegativeEigenvalue, decay_exponent, measured_exponents

WITHIN = 1e-3
"""How far a measured exponent may be from the predicted one."""
MEASURED = {"sum": EIGENVALUES, "mean": EIGENVALUES_OF_MEANS}


@dataclass(frozen=True)
class AttentionDecayClaim(Claim):
    """For V = lambda I with -1 < lambda < 0, gradients under uniform attention are not Omega(1/T), as a theorem says.

    The gradient is ds_T/dh_t = p_T I. There are T_0, B > 0, C and a whole number f with
    B T^(-3/2) <= |p_T| <= C T^(-1-1/f) for all T >= T_0; at lambda = -1/2, f = 4. The proof is an induction, whose step
    is that three polynomials are not negative from T_0 on (:class:`engram.theory.NegativeEigenvalue`). Everything in it
    is rational and finite: the values at T_0, and coefficients of which none is negative. That the exponent is
    Re(1/(1-lambda)) - 2, also for the mean (h + c)/2 with lambda/2, is measured in float64 at 16 eigenvalues: no proof,
    and the certificate says so.
    Source: Kerg (2022), Proposition B.1.33 and Theorem 4.4.2 = B.1.34, corrected.
    """

    step: int = 5
    """t, the step whose state is changed."""
    numerator: int = 1
    """Of -lambda; with the denominator 1/2 by default."""
    denominator: int = 2
    """Of -lambda."""

    name: ClassVar[str] = "attention-decay"
    words: ClassVar[str] = (
        "uniform attention, V = lambda I, -1 < lambda < 0: gradients are not Omega(1/T) (Kerg, Theorem 4.4.2), "
        "but decay as a power of T"
    )
    example: ClassVar[dict[str, int]] = {"step": 5, "numerator": 1, "denominator": 2}

    def __post_init__(self) -> None:
        check_size("step", self.step, most=1000)
        self._proof  # noqa: B018 - refuses other eigenvalues

    @property
    def _proof(self) -> NegativeEigenvalue:
        return NegativeEigenvalue(self.numerator, self.denominator)

    def cost(self) -> Cost:
        """Fractions that grow with every step up to T_0; polynomials of degree 2f + 1; 20,000 steps in float64."""
        gap, mu = (self.denominator - self.numerator) / self.denominator, self.numerator / self.denominator
        steps = 20 + 6 / gap**2 + log(self.step + 1) * 2 / gap
        longer = 2 + log2(self.denominator) + log2(steps + self.step)
        power = 2 + 4 * (1 + mu) / (3 * mu)
        fractions = 3 * steps * (1e-5 + 1e-11 * (steps * longer) ** 1.6)
        polynomials = (2 * log2(steps) + 9) * (1e-4 + 1.3e-9 * power**3)
        return Cost(0.3 + fractions + polynomials, 50 + MB * (steps * longer + power**2 * longer))

    def find(self, witness: str, prime: int, seed: int) -> Found:
        proof = self._proof
        start = proof.least_start(self.step)
        m, d = proof.base(self.step, start)
        return {
            "start": start,
            "base": [str(m), str(d)],
            "upper_constant": str(proof.above(start, m)),
            "lower_constant": str(proof.below(start, m)),
            **{f"{name}_polynomial": [str(x) for x in numbers] for name, numbers in proof.polynomials(start).items()},
            "exponents": [
                [combine, eigenvalue_text(value), f"{round(measured, 4) + 0.0:.4f}"]
                for combine, values in MEASURED.items()
                for value, measured in zip(values, measured_exponents(values, self.step, combine), strict=True)
            ],
        }

    def holds(self, found: Found) -> bool:
        return self._proven(found) and self._measured(found)

    def _proven(self, found: Found) -> bool:
        """Whether every inequality of the proof holds for the numbers found, at the T_0 found."""
        proof, start = self._proof, found["start"]
        if start < self.step or not proof.goes_on(start):
            return False
        m, d = proof.base(self.step, start)
        numbers = {"base": [m, d]} | {f"{name}_polynomial": each for name, each in proof.polynomials(start).items()}
        share, above, below = proof.K / start, rational(found["upper_constant"]), rational(found["lower_constant"])
        return bool(
            all(found[name] == [str(x) for x in values] for name, values in numbers.items())
            and proof.begins(start, m, d)
            and above**proof.f >= ((1 - proof.c + share) * abs(m)) ** proof.f * start
            and below > 0
            and below**2 <= ((1 - proof.c - share) * abs(m)) ** 2 * start
        )

    def _measured(self, found: Found) -> bool:
        wanted = [(combine, value) for combine, values in MEASURED.items() for value in values]
        if [row[:2] for row in found["exponents"]] != [[combine, eigenvalue_text(value)] for combine, value in wanted]:
            return False
        return all(
            abs(float(row[2]) - decay_exponent(value, combine)) <= WITHIN
            for row, (combine, value) in zip(found["exponents"], wanted, strict=True)
        )

    def statement(self, found: Found) -> str:
        power = fmpq(1) + fmpq(1, self._proof.f)
        below, above = (float(Fraction(found[name])) for name in ("lower_constant", "upper_constant"))  # in millionths
        return (
            f"With uniform attention, s = h + c and V = -{self.numerator}/{self.denominator} I, the gradient ds_T/dh_t "
            f"of t = {self.step} is p_T I with {below:.6f} T^(-3/2) <= |p_T| <= {above:.6f} T^(-{power}) for all "
            f"T >= {found['start']}. Against Theorem 4.4.2 it is not Omega(1/T), but it is a power of T. Measured in "
            f"float64, not proven: the exponents at {len(found['exponents'])} eigenvalues are Re(1/(1-lambda)) - 2 "
            f"within {WITHIN:g}."
        )


def eigenvalue_text(value: complex) -> str:
    """An eigenvalue as the certificate names it.

    >>> eigenvalue_text(-0.5), eigenvalue_text(0.5 + 0.5j)
    ('-0.5', '0.5+0.5i')
    """
    return f"{value.real:g}" + (f"{value.imag:+g}i" if value.imag else "")
