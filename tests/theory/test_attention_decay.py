"""The inductive bound that refutes Theorem 4.4.2 of Kerg (2022) for negative eigenvalues."""

from fractions import Fraction
from itertools import islice

import pytest
from flint import fmpq

from engram.errors import OptionError
from engram.theory import NegativeEigenvalue, decay_exponent, responses
from engram.theory._attention_decay import rounded_root

HALF = NegativeEigenvalue(1, 2)


@pytest.mark.parametrize("sizes", [(1, 2), (9, 10), (1, 7)])
def test_the_two_variables_are_the_recursion(sizes: tuple[int, int]) -> None:
    """m' and d' as the docstring has them, and s = ((1-c) m + d)/tau, against the recursion of responses."""
    proof = NegativeEigenvalue(*sizes)
    mu, c = proof.mu, proof.c
    m, d = fmpq(1), 3 + c
    for (tau, m_run, d_run), s in zip(
        islice(proof.run(3), 20), islice(responses(-Fraction(*sizes), 3), 20), strict=True
    ):
        assert (m, d) == (m_run, d_run)
        assert str(((1 - c) * m + d) / tau) == str(s)
        m, d = (1 - c / tau) * m - mu / tau * d, -c * (1 + c) / tau * m - mu * (1 + (1 + c) / tau) * d


def test_five_quarters() -> None:
    assert (HALF.c, HALF.K, HALF.f) == (fmpq(1, 3), fmpq(16, 9), 4)
    start = HALF.least_start(5)
    assert start == 14
    assert not HALF.goes_on(HALF_FIRST - 1)
    assert HALF.goes_on(HALF_FIRST)


HALF_FIRST = 9
"""Below it a coefficient is negative."""


@pytest.mark.parametrize(("step", "sizes"), [(1, (1, 2)), (5, (1, 2)), (100, (1, 2)), (5, (9, 10)), (3, (1, 7))])
def test_the_bounds_hold(step: int, sizes: tuple[int, int]) -> None:
    """In float64 up to T = 20,000, where they are not yet far from the truth; before T_0 they need not hold."""
    proof = NegativeEigenvalue(*sizes)
    start = proof.least_start(step)
    m, d = proof.base(step, start)
    assert proof.begins(start, m, d)
    above, below = (float(Fraction(str(x))) for x in (proof.above(start, m), proof.below(start, m)))
    for T, p in enumerate(islice(responses(-sizes[0] / sizes[1], step), 20_000), step):
        if start <= T:
            assert below * T**-1.5 <= abs(p) <= above * T ** (-1 - 1 / proof.f)
    assert -1.5 < decay_exponent(-sizes[0] / sizes[1]) < -1 - 1 / proof.f < -1
    least = below * start**-1.5, above * start ** (-1 - 1 / proof.f)
    first = abs(next(islice(responses(-sizes[0] / sizes[1], step), start - step, None)))
    assert least[0] < first < least[1] < 3 * first  # at T_0 itself the bounds are near


def test_the_induction_begins_only_near_the_balance() -> None:
    """|d| <= K |m| / T_0, m != 0, and K < (1 - c) T_0: each at its limit."""
    m, start = fmpq(1, 2), 20
    most = HALF.K * m / start
    assert HALF.begins(start, m, most)
    assert HALF.begins(start, -m, -most)
    assert not HALF.begins(start, m, most + fmpq(1, 10**9))
    assert not HALF.begins(start, fmpq(0), fmpq(0))
    assert not HALF.begins(2, m, fmpq(0))


def test_every_polynomial_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single negative coefficient of any of the three stops the induction."""
    true = HALF.polynomials(14)
    for name in ("ratio", "upper", "lower"):
        for place in range(len(true[name])):
            false = {key: list(value) for key, value in true.items()}
            false[name][place] = fmpq(-1, 10**6)
            monkeypatch.setattr(NegativeEigenvalue, "polynomials", lambda self, start, false=false: false)
            assert not HALF.goes_on(14)
    monkeypatch.setattr(NegativeEigenvalue, "polynomials", lambda self, start: true)
    assert HALF.goes_on(14)


@pytest.mark.parametrize("tau", [14, 15, 33])
def test_the_polynomials_are_the_inequalities(tau: int) -> None:
    """At u = tau - T_0 they have the values of both sides of what the docstring states."""
    mu, c, K, f = HALF.mu, HALF.c, HALF.K, HALF.f
    found = {
        name: sum((x * (tau - 14) ** k for k, x in enumerate(numbers)), fmpq(0))
        for name, numbers in HALF.polynomials(14).items()
    }
    slow, fast = (1 - c / tau + mu * K / tau**2), (1 - c / tau - mu * K / tau**2)
    most = (c * (1 + c) + mu * K * (1 + (1 + c) / tau)) / tau  # |d'| / |m|
    assert found["ratio"] == (K * fast - (tau + 1) * most) * tau**2
    assert found["upper"] == (fmpq(tau, tau + 1) - slow**f) * (tau + 1) * tau ** (2 * f)
    assert found["lower"] == (fast**2 - fmpq(tau, tau + 1)) * (tau + 1) * tau**4


def test_roots_are_rounded_outwards() -> None:
    for number in (fmpq(2), fmpq(1, 3), fmpq(10**9, 7)):
        up, down = rounded_root(number, 4, up=True), rounded_root(number, 4, up=False)
        assert down**4 < number < up**4
        assert up - down == fmpq(1, 10**6)
    assert rounded_root(fmpq(16), 4, up=True) == rounded_root(fmpq(16), 4, up=False) == 2


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((0, 2), "numerator must be at least 1"),
        ((2, 2), "numerator must be at most 1"),
        ((1, 1), "denominator must be at least 2"),
    ],
)
def test_what_is_refused(sizes: tuple[int, int], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        NegativeEigenvalue(*sizes)
    with pytest.raises(OptionError, match="start must be at least 5"):
        HALF.base(5, 4)
