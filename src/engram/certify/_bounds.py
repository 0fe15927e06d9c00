"""The numbers in the theorems: lower bounds that are claimed, upper bounds that always hold."""

from math import comb, log10, prod

from engram.errors import OptionError
from engram.files import MOST_DIGITS


def multiset(n: int, k: int, most: int | None = None) -> int:
    """The number of multisets of k out of n kinds, ((n over k)) = C(n + k - 1, k), or ``most`` if that is less.

    A number of more than 1000 digits is not made: it is above ``most``, or refused.

    >>> multiset(3, 4), multiset(3, 4, most=10)
    (15, 10)
    """
    total, fewer = n + k - 1, min(n - 1, k)
    digits = fewer * (log10(total) - log10(fewer)) if fewer else 0  # at least: C(N, m) >= (N / m)^m
    if most is not None and digits > log10(most) + 1:
        return most
    if digits > MOST_DIGITS:
        raise OptionError(f"a bound at these sizes has more than {MOST_DIGITS:,} digits: choose smaller sizes")
    return comb(total, k) if most is None else min(most, comb(total, k))


def _power(base: int, exponent: int) -> int | None:
    """base^exponent, None if it has more than 1000 digits."""
    return base**exponent if exponent * log10(base) <= MOST_DIGITS else None


def rac_shallow(modes: int, channels: int, steps: int) -> int:
    """Theorem 1.1: sep = min(R, M^{T/2}), for almost all weights (spec/arithmetic-circuits.md 3.2)."""
    most = _power(modes, steps // 2)
    return channels if most is None else min(channels, most)


def rac_deep(modes: int, channels: int, steps: int) -> int:
    """Theorem 1.2, depth 2: sep >= ((min(M, R) over T/2)), for almost all weights."""
    return multiset(min(modes, channels), steps // 2)


def rac_conjecture(modes: int, channels: int, steps: int, depth: int) -> int:
    """Conjecture 1: sep >= min{((min(M, R) over ((T/2 over L-1)))), M^{T/2}} (3.3)."""
    half, most = steps // 2, _power(modes, steps // 2)
    return multiset(min(modes, channels), multiset(half, depth - 1, most), most)


def rac_upper(modes: int, channels: int, steps: int, depth: int, templates: int) -> int:
    """No weights give a grid of more than this rank (3.4).

    y is a polynomial in the states at mid-sequence, of degree ((T/2 over L-l)) in layer l, and in each late input, of
    degree ((tau over L-1)) through a vector of min(M, R) numbers; with K templates an input has K values at most.
    """
    half, states = steps // 2, 1
    through = min(modes, channels)
    taus = range(1, half + 1) if templates > 1 else ()
    inputs = prod(multiset(through, multiset(tau, depth - 1, templates), templates) for tau in taus)
    for layer in range(1, depth + 1):
        states *= multiset(channels, multiset(half, depth - layer, inputs), inputs)
        if states >= inputs:  # more layers only add to it
            return inputs
    return states


def tt_thesis(modes: int, rank: int, steps: int) -> int:
    """The printed bound for equal cores, min(n, r - 1)^{d/2} (spec/tensor-train.md 4.2)."""
    return min(modes, rank - 1) ** (steps // 2)


def tt_bound(modes: int, rank: int, steps: int) -> int:
    """min(n, r)^{d/2}: for different cores in the literature, for equal ones by the sharper count (4.3)."""
    return min(modes, rank) ** (steps // 2)


def tt_upper(modes: int, rank: int, steps: int) -> int:
    """min(n, r) min(n, r^2)^{d/2-1}: the cut around every even mode, for any cores (4.4)."""
    return min(modes, rank) * min(modes, rank**2) ** (steps // 2 - 1)
