"""Uniform attention: weights of paths, their lemmas and the exponent of the decay (Kerg 2022, Appendix B.1.3)."""

from fractions import Fraction
from itertools import combinations, islice
from math import factorial, prod

import numpy as np
import pytest
from flint import fmpq_poly

from engram.errors import OptionError
from engram.theory import (
    EIGENVALUES,
    EIGENVALUES_OF_MEANS,
    chi,
    chi_bounds,
    decay_exponent,
    measured_exponents,
    omega,
    responses,
    theta,
    theta_bounds,
)

CASES = [(t, k, s) for t in (1, 2, 5) for k in range(1, 10) for s in range(k + 1)]


def factors(step: int, places: tuple[int, ...]) -> Fraction:
    """(1/(t+i_s) + 1 if i_s - i_{s-1} = 1) ... (1/(t+i_1) + 1 if i_1 = 0): Eq. B.1.122, term by term."""
    before = (None, *places)
    return prod(
        (Fraction(1, step + i) + (i == 0 if j is None else i - j == 1) for j, i in zip(before, places, strict=False)),
        start=Fraction(1),
    )


@pytest.mark.parametrize("step", [1, 2, 5])
def test_weights_of_paths_are_their_definitions(step: int) -> None:
    for _, k, s in (case for case in CASES if case[0] == step):
        paths = list(combinations(range(k), s))
        assert omega(step, 0, k, s) == sum(prod(Fraction(1, step + i) for i in path) for path in paths)
        assert theta(step, k, s) == sum(factors(step, path) for path in paths)
        assert chi(step, k, s) == sum(factors(step, (*path, k)) for path in paths)


def test_lemmas_b_1_28_and_b_1_31() -> None:
    """Both bounds of both lemmas in exact arithmetic; late in a sequence they nearly meet, so no factor is free."""
    for t, k, s in CASES:
        for value, (low, high) in ((theta(t, k, s), theta_bounds(t, k, s)), (chi(t, k, s), chi_bounds(t, k, s))):
            assert low <= value <= high
        assert theta_bounds(t, k, 0) == (1, 1)
        assert chi_bounds(t, k, 0)[0] == chi_bounds(t, k, 0)[1] == chi(t, k, 0) == Fraction(1, t + k)
    for s in range(5):
        for low, high in (theta_bounds(1000, 5, s), chi_bounds(1000, 5, s)):
            assert 1 <= high / low < 1 + Fraction(3 * s, 1000) or s == 0


@pytest.mark.parametrize("eigenvalue", [Fraction(-1, 2), Fraction(7, 10), Fraction(-9, 10)])
def test_the_recursion_is_the_sum_over_lengths(eigenvalue: Fraction) -> None:
    for step in (1, 2, 5):
        for k, response in enumerate(islice(responses(eigenvalue, step), 10)):
            assert response == sum(chi(step, k, s) * eigenvalue**s for s in range(k + 1))


def test_chi_as_coefficients() -> None:
    """The recursion with a polynomial for lambda gives every chi at once."""
    polynomials = list(islice(responses(fmpq_poly([0, 1]), 5), 10))
    for k, found in enumerate(polynomials):
        assert [str(number) for number in found.coeffs()] == [str(chi(5, k, s)) for s in range(k + 1)]


def test_omega_of_four() -> None:
    """Eqs. B.1.143 and B.1.144 have two different constant terms; neither is right (t = 2, k = 12)."""
    t, k = 2, 12
    S = [sum(Fraction(1, t + i) ** power for i in range(k)) for power in range(5)]
    rest = S[1] ** 4 / factorial(4) - S[2] / 2 * omega(t, 0, k, 2) + S[3] / 3 * omega(t, 0, k, 1)
    exact = omega(t, 0, k, 4)
    assert exact == rest - (2 * S[4] + S[2] ** 2) / 8
    printed = [rest - (S[4] + S[2] ** 2) / 8, rest - (S[4] + 2 * S[2] ** 2) / 8]
    assert [round(float(value), 5) for value in (exact, *printed)] == [0.42796, 0.43824, 0.3975]


def compositions(total: int) -> list[tuple[int, ...]]:
    """All ordered tuples of numbers of 2 or more with this sum."""
    if total == 0:
        return [()]
    return [(first, *rest) for first in range(2, total + 1) for rest in compositions(total - first)]


def test_omega_by_compositions() -> None:
    """Proposition B.1.25: omega(s) = sum_r psi_r S_1^(s-r)/(s-r)!, psi over ordered tuples, not sorted as B.1.160."""
    t, k, most = 2, 12, 7
    S_1, delta = omega(t, 0, k, 1), [Fraction(0)] * (most + 1)
    for s in range(2, most + 1):  # the constant terms of the recursive formula, Eq. B.1.145
        lower = sum(delta[s - r] * omega(t, 0, k, r) for r in range(1, s))
        delta[s] = omega(t, 0, k, s) - S_1**s / factorial(s) - lower

    def expanded(s: int, sorted_only: bool) -> Fraction:
        total = Fraction(0)
        for r in range(s + 1):
            tuples = [each for each in compositions(r) if not sorted_only or list(each) == sorted(each, reverse=True)]
            psi = sum((prod((delta[j] for j in each), start=Fraction(1)) for each in tuples), Fraction(0))
            total += psi * S_1 ** (s - r) / factorial(s - r)
        return total

    assert [expanded(s, False) for s in range(most + 1)] == [omega(t, 0, k, s) for s in range(most + 1)]
    assert [s for s in range(most + 1) if expanded(s, True) != omega(t, 0, k, s)] == [5, 6, 7]  # (3, 2) and (2, 3)


@pytest.mark.parametrize("step", [1, 5, 100])
def test_the_corrected_exponent(step: int) -> None:
    for combine, values in (("sum", EIGENVALUES), ("mean", EIGENVALUES_OF_MEANS)):
        predicted = [decay_exponent(value, combine) for value in values]
        assert measured_exponents(values, step, combine) == pytest.approx(predicted, abs=1e-3)
    assert len(EIGENVALUES) == 12


def test_values_of_the_exponent() -> None:
    """From lines fitted to T = 10^4 ... 2 10^5 with another program, to four digits."""
    fitted = [-1.4737, -1.3333, -1.1667, -1, -0.8889, -0.5714, 0, 1.3332, -1, -1.2921, -1.4421, -1.4453]
    assert [decay_exponent(value) for value in EIGENVALUES] == pytest.approx(fitted, abs=2e-4)
    means = [decay_exponent(value, "mean") for value in EIGENVALUES_OF_MEANS]
    assert means == pytest.approx([-1.3103, -0.6667, -0.1818, 0], abs=1e-4)


def test_the_printed_exponent_fits_only_zero() -> None:
    measured = measured_exponents(EIGENVALUES)
    printed = [max(-1, np.real(value) - 1) for value in EIGENVALUES]
    close = [v for v, a, b in zip(EIGENVALUES, measured, printed, strict=True) if abs(a - b) < 1e-2]
    assert close == [0.0]


def test_at_least_one_over_t_in_the_disc_only() -> None:
    """Omega(1/T) if and only if |lambda - 1/2| <= 1/2; always slower than T^(-3/2)."""
    for value in EIGENVALUES:
        assert (decay_exponent(value) >= -1 - 1e-12) == (abs(value - 0.5) <= 0.5 + 1e-12)
        assert decay_exponent(value) > -1.5


def test_a_normal_matrix() -> None:
    """||ds_T/dh_t||^2 is the sum of |p_T|^2 over the eigenvalues (Eq. B.1.279), here -0.5 and 0.2 +- 0.7i."""
    values = np.array([-0.5, 0.2 + 0.7j, 0.2 - 0.7j])
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    V = Q @ np.array([[-0.5, 0, 0], [0, 0.2, 0.7], [0, -0.7, 0.2]]) @ Q.T
    h = m = np.eye(3)
    for tau, p in zip(range(5, 500), responses(values, 5), strict=False):
        s = h + m / tau
        # every step rounds some 20 times, relative to m/tau, which is never far below s
        assert np.linalg.norm(s) == pytest.approx(np.linalg.norm(p), rel=500 * 20 * 2.3e-16)
        h = V @ s
        m = m + h


WRONG = {
    "modulus": (lambda: decay_exponent(1.2), "eigenvalue must have a modulus of at most 1"),
    "one": (lambda: decay_exponent(1.0), "and not be that number itself; got 1.0"),
    "two, of the mean": (lambda: decay_exponent(2.0, "mean"), "at most 2"),
    "not a number": (lambda: decay_exponent(float("nan")), "got nan"),
    "combine": (lambda: decay_exponent(0.5, "max"), "unknown combine 'max'"),
    "step": (lambda: measured_exponents([0.5], step=20_000), "far must be at least 20001"),
    "first": (lambda: next(responses(0.5, 0)), "step must be at least 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, words = WRONG[case]
    with pytest.raises(OptionError, match=words):
        call()
