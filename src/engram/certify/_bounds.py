"""The numbers in the theorems: lower bounds that are claimed, upper bounds that always hold."""

from math import comb, prod


def multiset(n: int, k: int) -> int:
    """The number of multisets of k out of n kinds, ((n over k)) = C(n + k - 1, k).

    >>> multiset(3, 4)
    15
    """
    return comb(n + k - 1, k)


def _at_most(value: int, base: int, exponent: int) -> int:
    """min(value, base^exponent); the power is not made where it is larger, for T may be very long."""
    return value if base > 1 and exponent >= value.bit_length() else min(value, base**exponent)


def rac_shallow(modes: int, channels: int, steps: int) -> int:
    """Theorem 1.1: sep = min(R, M^{T/2}), for almost all weights (spec/arithmetic-circuits.md 3.2)."""
    return _at_most(channels, modes, steps // 2)


def rac_deep(modes: int, channels: int, steps: int) -> int:
    """Theorem 1.2, depth 2: sep >= ((min(M, R) over T/2)), for almost all weights."""
    return multiset(min(modes, channels), steps // 2)


def rac_conjecture(modes: int, channels: int, steps: int, depth: int) -> int:
    """Conjecture 1: sep >= min{((min(M, R) over ((T/2 over L-1)))), M^{T/2}} (3.3)."""
    return _at_most(multiset(min(modes, channels), multiset(steps // 2, depth - 1)), modes, steps // 2)


def rac_upper(modes: int, channels: int, steps: int, depth: int, templates: int) -> int:
    """No weights give a grid of more than this rank (3.4).

    y is a polynomial in the states at mid-sequence, of degree ((T/2 over L-l)) in layer l, and in each late input, of
    degree ((tau over L-1)) through a vector of min(M, R) numbers; with K templates an input has K values at most.
    """
    half, states = steps // 2, 1
    through = min(modes, channels)
    inputs = prod(min(templates, multiset(through, multiset(tau, depth - 1))) for tau in range(1, half + 1))
    for layer in range(1, depth + 1):
        states *= multiset(channels, multiset(half, depth - layer))
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
