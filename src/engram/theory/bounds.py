"""Lower and upper bounds on ranks, as the theorems state them.

The multiset coefficient ((n over k)) = C(n + k - 1, k) counts the multisets of k elements out of n kinds.
Sources: Ziv (2019), Section 2.3 (circuits); Alkin (2024), Chapter 4 (tensor trains); docs/sources.md for the bounds
that are not printed.
"""

from math import comb, log10, prod

from engram.errors import OptionError
from engram.files import MOST_DIGITS


def multiset(n: int, k: int, most: int | None = None) -> int:
    """((n over k)) = C(n + k - 1, k), or ``most`` if that is less.

    A number of more than 1000 digits is not computed: it is above ``most``, or an error.

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
    """Ziv, Theorem 1.1, depth 1: the separation rank is min(R, M^{T/2}), for almost all weights."""
    most = _power(modes, steps // 2)
    return channels if most is None else min(channels, most)


def rac_deep(modes: int, channels: int, steps: int) -> int:
    """Ziv, Theorem 1.2, depth 2: the separation rank is at least ((min(M, R) over T/2)), for almost all weights."""
    return multiset(min(modes, channels), steps // 2)


def rac_conjecture(modes: int, channels: int, steps: int, depth: int) -> int:
    """Ziv, Conjecture 1, depth L: the separation rank is at least min{((min(M, R) over ((T/2 over L-1)))), M^{T/2}}."""
    half, most = steps // 2, _power(modes, steps // 2)
    return multiset(min(modes, channels), multiset(half, depth - 1, most), most)


def rac_upper(modes: int, channels: int, steps: int, depth: int, templates: int) -> int:
    """No weights give a grid of K templates more than this rank. Not in the thesis; by counting degrees.

    y is a polynomial in the states after T/2 steps, of degree ((T/2 over L-l)) in layer l; and in the input tau steps
    before the end, of degree ((tau over L-1)), through min(M, R) numbers. With K templates an input has K values.
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


def enough_templates(modes: int, channels: int, steps: int, depth: int, max_side: int) -> int:
    """The smallest K >= M for which :func:`rac_upper` allows the rank of Conjecture 1; if R < M, K = M may be too few.

    If no grid of at most ``max_side`` rows is enough, the smallest K whose grid is larger.

    >>> enough_templates(4, 3, 6, 4, max_side=1024)
    5
    """
    bound, templates = rac_conjecture(modes, channels, steps, depth), modes
    while templates ** (steps // 2) <= max_side:
        if rac_upper(modes, channels, steps, depth, templates) >= bound:
            break
        templates += 1
    return templates


def tt_printed(modes: int, rank: int, steps: int) -> int:
    """Alkin, Theorem 1, for equal cores as printed: the CP rank is at least min(n, r - 1)^{d/2}."""
    return min(modes, rank - 1) ** (steps // 2)


def tt_bound(modes: int, rank: int, steps: int) -> int:
    """The CP rank is at least min(n, r)^{d/2}: Khrulkov et al. (2018), Theorem 1; for equal cores docs/sources.md."""
    return min(modes, rank) ** (steps // 2)


def tt_upper(modes: int, rank: int, steps: int) -> int:
    """The odd-even rank is at most min(n, r) min(n, r^2)^{d/2-1}, for any cores: even modes have two bonds each."""
    return min(modes, rank) * min(modes, rank**2) ** (steps // 2 - 1)
