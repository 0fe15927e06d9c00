"""Uniform attention forgets faster than 1/T for negative eigenvalues: the proof by induction, as finite numbers.

The printed theorem: ||ds_T/dh_t|| = Omega(1/T) for every normal V whose eigenvalues have a modulus below 1.
Source: Kerg (2022), Theorem 4.4.2 = B.1.34. That V = -1/2 I is a counterexample, and this proof of it, are ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from flint import fmpq, fmpq_poly, fmpz

from engram.errors import check_size

PARTS = 10**6
"""The constants of the bounds are rounded to this many parts of 1."""


@dataclass(frozen=True)
class NegativeEigenvalue:
    """The recursion of :func:`engram.theory.responses` for lambda = -mu, 0 < mu < 1, in variables that decouple.

    Let m be the change of h_1 + ... + h_tau, c = mu/(1+mu) and d = tau h + c m, the distance from the balance
    tau h = -c m. Then s = ((1-c) m + d)/tau, and the step from tau to tau + 1 is

        m' = (1 - c/tau) m - (mu/tau) d,    d' = -(c(1+c)/tau) m - mu (1 + (1+c)/tau) d.

    Induction: let K = 2 c(1+c)/(1-mu), and |d| <= K |m|/tau and m != 0 at tau = T_0. If the three polynomials below are
    not negative for all tau >= T_0, then at every tau >= T_0

        ratio:  |d'| <= K |m'|/(tau+1) and m' != 0,
        upper:  |m'|/|m| <= 1 - c/tau + mu K/tau^2 <= (tau/(tau+1))^(1/f),
        lower:  |m'|/|m| >= 1 - c/tau - mu K/tau^2 >= (tau/(tau+1))^(1/2).

    So |m_T| <= |m_{T_0}| (T_0/T)^(1/f), and B T^(-3/2) <= |s_T| <= C T^(-1-1/f) for all T >= T_0, with
    C >= (1 - c + K/T_0) |m_{T_0}| T_0^(1/f) and 0 < B <= (1 - c - K/T_0) |m_{T_0}| T_0^(1/2). Since 1/f > 0, T |s_T|
    goes to 0. A polynomial is not negative for all tau >= T_0 if in u = tau - T_0 no coefficient is negative.
    """

    numerator: int
    """Of mu = -lambda."""
    denominator: int
    """Of mu."""

    def __post_init__(self) -> None:
        check_size("denominator", self.denominator, least=2)
        check_size("numerator", self.numerator, most=self.denominator - 1)

    @property
    def mu(self) -> fmpq:
        return fmpq(self.numerator, self.denominator)

    @property
    def c(self) -> fmpq:
        return self.mu / (1 + self.mu)

    @property
    def K(self) -> fmpq:
        return 2 * self.c * (1 + self.c) / (1 - self.mu)

    @property
    def f(self) -> int:
        """The bound decays as T^(-1-1/f): the least f with 1/f <= 3c/4, below c, which no such proof reaches."""
        return int((4 / (3 * self.c)).ceil())

    def polynomials(self, start: int) -> dict[str, list[fmpq]]:
        """The coefficients of the three polynomials in u = tau - T_0, lowest first; T_0 is ``start``."""
        mu, c, K = self.mu, self.c, self.K
        tau = fmpq_poly([start, 1])
        slower, faster = tau**2 - c * tau + mu * K, tau**2 - c * tau - mu * K
        made = {
            "ratio": K * faster - (tau + 1) * (c * (1 + c) * tau + mu * K * (tau + 1 + c)),
            "upper": tau ** (2 * self.f + 1) - slower**self.f * (tau + 1),
            "lower": faster**2 * (tau + 1) - tau**5,
        }
        return {name: poly.coeffs() for name, poly in made.items()}

    def run(self, step: int) -> Iterator[tuple[int, fmpq, fmpq]]:
        """(tau, m, d) from tau = ``step`` on, where h = m = 1."""
        mu, c = self.mu, self.c
        tau, h, m = step, fmpq(1), fmpq(1)
        while True:
            yield tau, m, tau * h + c * m
            h = -mu * (h + m / tau)
            m, tau = m + h, tau + 1

    def base(self, step: int, start: int) -> tuple[fmpq, fmpq]:
        """m and d at T_0 = ``start``."""
        check_size("start", start, least=check_size("step", step))
        return next((m, d) for tau, m, d in self.run(step) if tau == start)

    def begins(self, start: int, m: fmpq, d: fmpq) -> bool:
        """Whether the induction begins at T_0 = ``start`` with these numbers, and B is positive."""
        return bool(m != 0 and abs(d) * start <= self.K * abs(m) and (1 - self.c) * start > self.K)

    def goes_on(self, start: int) -> bool:
        """Whether the induction steps from every tau >= T_0 = ``start``: no coefficient is negative."""
        return all(number >= 0 for numbers in self.polynomials(start).values() for number in numbers)

    def least_start(self, step: int) -> int:
        """The least T_0 >= ``step`` from which the proof works."""
        low = high = check_size("step", step)
        while not self.goes_on(high):
            low, high = high + 1, 2 * high + 8
        while low < high:  # what goes on from T_0 goes on from T_0 + 1
            middle = (low + high) // 2
            low, high = (low, middle) if self.goes_on(middle) else (middle + 1, high)
        return next(tau for tau, m, d in self.run(step) if tau >= low and self.begins(tau, m, d))

    def above(self, start: int, m: fmpq) -> fmpq:
        """C, rounded up: |s_T| <= C T^(-1-1/f) for all T >= T_0."""
        return rounded_root(((1 - self.c + self.K / start) * abs(m)) ** self.f * start, self.f, up=True)

    def below(self, start: int, m: fmpq) -> fmpq:
        """B, rounded down: |s_T| >= B T^(-3/2) for all T >= T_0."""
        return rounded_root(((1 - self.c - self.K / start) * abs(m)) ** 2 * start, 2, up=False)


def rounded_root(number: fmpq, degree: int, *, up: bool) -> fmpq:
    """The root of a positive number, in millionths: the least that is not below it, or the largest not above it.

    >>> print(rounded_root(fmpq(2), 2, up=True), rounded_root(fmpq(2), 2, up=False))
    707107/500000 1414213/1000000
    """
    scaled = number * fmpz(PARTS) ** degree
    whole = scaled.floor().root(degree)  # the floor of the root
    return fmpq(whole + (up and whole**degree < scaled), PARTS)
