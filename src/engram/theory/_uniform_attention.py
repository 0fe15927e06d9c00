"""Gradients under uniform attention: the weight of all paths of a length, and how fast their sum decays.

Every step attends to all states so far with equal weights, s_t = h_t + (h_1 + ... + h_t)/t and h_{t+1} = V s_t. Then
ds_{t+k}/dh_t = sum_s chi_k(s) V^s: a path that passes V s times weighs chi_k(s) in all. In the direction of an
eigenvalue lambda of a normal V this is a number, p_k(lambda) = sum_s chi_k(s) lambda^s.
Source: Kerg (2022), Appendix B.1.3, Eqs. B.1.114 to B.1.125, Lemmas B.1.28 and B.1.31.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from math import comb
from typing import Any

import numpy as np

from engram.errors import OptionError, check_choice, check_size

COMBINATIONS = ("sum", "mean")
EIGENVALUES = (-0.9, -0.5, -0.2, 0.0, 0.1, 0.3, 0.5, 0.7, 0.5 + 0.5j, 0.2 + 0.7j, -0.3 + 0.8j, 0.05 + 0.9j)
"""Where the exponent is measured with s = h + c."""
EIGENVALUES_OF_MEANS = (-0.9, 0.5, 0.9, 1.0)
"""Where it is measured with s = (h + c) / 2."""
FAR = 10_000
"""The exponent is measured from here to twice as far."""


def responses(eigenvalue: Any, step: int = 1) -> Iterator[Any]:
    """p_0, p_1, ...: the change of s_t, s_{t+1}, ... per change of h_t in the eigenvalue's direction.

    With m for the change of h_1 + ... + h_tau: s = h + m/tau, then h = lambda s, then m = m + h.

    Args:
        eigenvalue: lambda, any number: complex, an array of several, a fraction, or a polynomial x, which gives chi_k
            as coefficients.
        step: t, at least 1.
    """
    one = eigenvalue**0
    h, m, tau = one, one, check_size("step", step)
    while True:
        s = h + m / tau
        yield s
        h = eigenvalue * s
        m = m + h
        tau += 1


def symmetric(numbers: Iterable[Fraction], most: int) -> list[Fraction]:
    """The elementary symmetric polynomials of the numbers, of degrees 0 to ``most``."""
    sums = [Fraction(1)] + [Fraction(0)] * most
    for number in numbers:
        for degree in range(most, 0, -1):
            sums[degree] += number * sums[degree - 1]
    return sums


def omega(step: int, first: int, end: int, length: int) -> Fraction:
    """omega_{l:k}(s): the sum of the products of s different ones of 1/(t+l), ..., 1/(t+k-1) (Eq. B.1.121).

    Args:
        step: t.
        first: l, where the sum begins.
        end: k, where it ends, exclusive.
        length: s, the factors of a product.
    """
    return symmetric((Fraction(1, step + i) for i in range(first, end)), length)[length]


def theta(step: int, end: int, length: int) -> Fraction:
    """theta_{0:k}(s), the weight of paths of s factors that have not yet reached k (Eqs. B.1.122, B.1.191).

    theta_k(s+1) = theta_{k-1}(s) + sum_{s<=j<k} theta_j(s)/(t+j), theta_k(0) = 1.

    Args:
        step: t, where the paths begin.
        end: k, the steps from there to the end.
        length: s, how often a path passes V.
    """
    row = [Fraction(1)] * (end + 1)  # theta_k(s) for k = 0 .. end
    for s in range(length):
        longer, total = [Fraction(0)] * (end + 1), Fraction(0)
        for k in range(s + 1, end + 1):
            total += row[k - 1] / (step + k - 1)
            longer[k] = row[k - 1] + total
        row = longer
    return row[end]


def chi(step: int, end: int, length: int) -> Fraction:
    """chi_{0:k}(s), the weight of all paths from h_t to s_{t+k} that pass V s times (Eqs. B.1.117, B.1.124).

    Args:
        step: t, where the paths begin.
        end: k, the steps from there to the end.
        length: s, how often a path passes V.

    >>> [str(chi(1, 2, s)) for s in range(3)]
    ['1/3', '4/3', '4']
    """
    parts = (theta(step, end - i, length - i) / (step + end - i) for i in range(length + 1))
    return (end == length) + sum(parts, Fraction(0))


def theta_bounds(step: int, end: int, length: int) -> tuple[Fraction, Fraction]:
    """Lemma B.1.28: sum_r C(s,r) omega_{s-r:k}(r) <= theta_{0:k}(s) <= sum_r C(s,r) omega_{0:k-s+r}(r).

    Args:
        step: t, where the paths begin.
        end: k, the steps from there to the end.
        length: s, how often a path passes V.
    """
    s, k = length, end
    low = (comb(s, r) * omega(step, s - r, k, r) for r in range(s + 1))
    high = (comb(s, r) * omega(step, 0, k - s + r, r) for r in range(s + 1))
    return sum(low, Fraction(0)), sum(high, Fraction(0))


def chi_bounds(step: int, end: int, length: int) -> tuple[Fraction, Fraction]:
    """Lemma B.1.31: the bounds with C(s+1, r+1), divided by t+k below and t+k-s above; and 1 more if k = s.

    Args:
        step: t, where the paths begin.
        end: k, the steps from there to the end.
        length: s, how often a path passes V.
    """
    s, k = length, end
    low = sum((comb(s + 1, r + 1) * omega(step, s - r, k, r) for r in range(s + 1)), Fraction(0))
    high = sum((comb(s + 1, r + 1) * omega(step, 0, k - s + r, r) for r in range(s + 1)), Fraction(0))
    return (k == s) + low / (step + k), (k == s) + high / (step + k - s)


def decay_exponent(eigenvalue: complex, combine: str = "sum") -> float:
    """Re(1/(1-lambda)) - 2, with which |p_T(lambda)| decays (or grows) as T^exponent; lambda/2 for ``mean``.

    The printed exponents, -1 and lambda - 1 (Proposition B.1.33), are right for lambda = 0 only: summed over all
    lengths, Lemma B.1.32 gives (1-lambda)^-2 T^(lambda/(1-lambda)) / T.

    Args:
        eigenvalue: lambda, of V.
        combine: ``sum``, s = h + c, or ``mean``, s = (h + c) / 2.

    >>> decay_exponent(-0.5), decay_exponent(0.5), decay_exponent(1.0, combine="mean")
    (-1.3333333333333335, 0.0, 0.0)
    """
    effective = eigenvalue / (1 + COMBINATIONS.index(check_choice("combine", combine, COMBINATIONS)))
    if not (abs(effective) <= 1 and effective != 1):
        raise OptionError(
            f"eigenvalue must have a modulus of at most {1 if combine == 'sum' else 2}, and not be that number itself; "
            f"got {eigenvalue}"
        )
    return float((1 / (1 - complex(effective))).real - 2)


def measured_exponents(
    eigenvalues: Iterable[complex], step: int = 5, combine: str = "sum", far: int = FAR
) -> list[float]:
    """log2 |p_{2T} / p_T| at T = ``far`` for every eigenvalue: :func:`decay_exponent`, but for an error of O(1/T).

    Args:
        eigenvalues: lambda, several.
        step: t, at least 1.
        combine: ``sum``, s = h + c, or ``mean``, s = (h + c) / 2.
        far: T, above t.
    """
    half = 1 + COMBINATIONS.index(check_choice("combine", combine, COMBINATIONS))
    values = np.array([*eigenvalues], dtype=complex) / half
    check_size("far", far, least=check_size("step", step) + 1)
    near, twice = islice(responses(values, step), far - step, 2 * far - step + 1, far)
    return [float(exponent) for exponent in np.log2(np.abs(twice / near))]
