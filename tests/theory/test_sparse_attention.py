"""Sparse attention: relays, patterns and the exponent of kappa (Kerg 2022, Appendix B.1.4)."""

from fractions import Fraction
from itertools import combinations
from math import prod

import pytest
from flint import fmpq_poly

from engram.errors import OptionError
from engram.theory import Pattern, random_pattern, relay_chain


@pytest.mark.parametrize("attended", [2, 4, 8])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_relays(attended: int, depth: int) -> None:
    """(lambda/kappa)^d / kappa by the relays alone, and what the recurrence adds."""
    pattern, gap, x = relay_chain(attended, depth, gap=7), 7, Fraction(1, 20)
    *_, last = pattern.responses(x)
    relays = (x / attended) ** depth / attended
    assert last == x**depth * (Fraction(1, attended) + x**gap) ** (depth + 1)
    assert 0 < last / relays - 1 < 2 * (depth + 1) * attended * x**gap
    assert all(len(each) == attended for each in pattern.attended)
    assert pattern.depths()[-1] == depth
    *_, polynomial = pattern.responses(fmpq_poly([0, 1]))
    numbers = [str(number) for number in polynomial.coeffs()]
    assert numbers[: depth + gap] == ["0"] * depth + [f"1/{attended ** (depth + 1)}"] + ["0"] * (gap - 1)


def test_the_exponent_of_kappa() -> None:
    """kappa^(d+1) p is the same for every kappa; kappa^d p goes to 0: no constant times kappa^-d is a lower bound."""
    x, depth = Fraction(1, 2), 2
    shares = []
    for attended in (1, 10, 100, 1000):
        *_, polynomial = relay_chain(attended, depth, gap=3).responses(fmpq_poly([0, 1]))
        relays = Fraction(str(polynomial[depth])) * x**depth
        assert relays * attended ** (depth + 1) == x**depth
        shares.append(relays * attended**depth)
    assert shares == [x**depth / kappa for kappa in (1, 10, 100, 1000)]


def weight(pattern: Pattern, seen: int, tau: int, direct: bool) -> Fraction:
    """1/kappa if tau attends to the state, and 1 if the recurrence leads there (Eqs. B.1.271, B.1.272)."""
    attended = pattern.attended[tau - pattern.step]
    return Fraction(seen in attended, len(attended)) + direct


@pytest.mark.parametrize("seed", range(4))
def test_weights_of_paths_are_their_definitions(seed: int) -> None:
    """Eq. B.1.274, path by path, against the recursion; and the depth against all paths by attention alone."""
    pattern = random_pattern(3, 2, 8, seed)
    t = pattern.step
    for k, (found, depth) in enumerate(zip(pattern.responses(fmpq_poly([0, 1])), pattern.depths(), strict=True)):
        reached = set()
        for s in range(k + 1):
            total = Fraction(0)
            for places in combinations(range(k), s):
                ends = (*places, k)
                jumps = [(t + i + 1, t + j, j - i == 1) for i, j in zip(places, ends[1:], strict=True)]
                total += prod(
                    (weight(pattern, *jump) for jump in jumps), start=weight(pattern, t, t + ends[0], ends[0] == 0)
                )
                seen = [weight(pattern, *jump[:2], False) for jump in jumps] + [weight(pattern, t, t + ends[0], False)]
                reached |= {s} if all(seen) else set()
            assert str(found[s]) == str(total)
        assert depth == min(reached)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("attended", "depth"), [(1, 0), (1, 3), (2, 1), (4, 2), (6, 0)])
def test_random_patterns(attended: int, depth: int, seed: int) -> None:
    pattern = random_pattern(attended, depth, 25, seed)
    depths = pattern.depths()
    assert max(depths) <= depth  # type: ignore[type-var, operator]
    for tau, each in enumerate(pattern.attended, pattern.step):
        assert len(each) == attended
        assert min(each) >= 1
        assert max(each) <= tau
    for x in (Fraction(1, 20), Fraction(3, 2)):
        for p, s in zip(pattern.responses(x), depths, strict=True):
            assert p >= min(x**i * Fraction(1, attended ** (i + 1)) for i in range(depth + 1))
            assert p >= x**s * Fraction(1, attended ** (s + 1))  # type: ignore[operator]
    assert pattern == random_pattern(attended, depth, 25, seed)
    assert attended * depth == 0 or pattern != random_pattern(attended, depth, 25, seed, purpose=1)


def test_what_cannot_be_seen_has_no_depth() -> None:
    """After h_2 nothing attends to it: only the recurrence leads on."""
    pattern = Pattern(2, (frozenset({1, 2}), frozenset({1}), frozenset({3})))
    assert pattern.depths() == [0, None, 1]
    assert list(pattern.responses(Fraction(1, 3))) == [Fraction(3, 2), Fraction(1, 2), Fraction(1, 6) + Fraction(1, 2)]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((0, 1, 1), "attended must"), ((1, -1, 1), "depth must"), ((1, 1, 0), "gap must")],
)
def test_what_is_refused(sizes: tuple[int, int, int], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        relay_chain(*sizes)
    with pytest.raises(OptionError, match="steps must be at least 1"):
        random_pattern(1, 1, 0, 0)
