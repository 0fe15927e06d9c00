"""What the arithmetic of a claim costs, estimated from its sizes before it starts, and the limits it must keep.

Estimates are floats that may be infinite: no large number is computed for one. Their constants were measured on one
core of a server of 2023; an estimate is right to a factor of about five.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, lgamma, log, log10

from engram.errors import OptionError
from engram.places import free_memory

MB = 1e-6
DAY = 86_400.0
LARGEST = 10**12
"""The largest size of any claim: for larger ones even the estimate may take too long."""
UNITS = (("year", 31_557_600), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True)
class Cost:
    """What finding the numbers of a claim takes."""

    seconds: float
    """On one core."""
    megabytes: float
    """At the peak."""
    rows: float = 0
    """Of the largest matrix; 0 if there is no limit on it."""


def check_limits(name: str, cost: Cost, max_side: int | None, max_memory: float | None, max_seconds: float) -> None:
    """Raise an error if the estimate of a claim of this name is above a limit; ``max_memory`` None: the free memory."""
    if max_side is not None and not cost.rows <= max_side:
        raise OptionError(f"{name}: the matrix has {rounded(cost.rows)} rows, max_side is {max_side:,}")
    memory = free_memory() if max_memory is None else max_memory
    if not cost.megabytes <= memory:  # "not <=" also refuses NaN as a limit
        raise OptionError(
            f"{name} is estimated to need {rounded(cost.megabytes)} MB at these sizes, and the limit is "
            f"{rounded(memory)} MB: choose smaller sizes, or raise max_memory"
        )
    if not cost.seconds <= max_seconds:
        raise OptionError(
            f"{name} is estimated to take {duration(cost.seconds)} at these sizes, and the limit is "
            f"{duration(max_seconds)}: choose smaller sizes, or raise max_seconds"
        )


def check_large(what: str, sizes: Mapping[str, int]) -> None:
    """Raise an error for a size above 10^12."""
    for name, size in sizes.items():
        if size > LARGEST:
            raise OptionError(f"{what}: {name} must be at most 10^12, got {rounded(size)}")


def rounded(number: float) -> str:
    """A number of any size as a short text.

    >>> rounded(1234.5), rounded(10**400), rounded(inf)
    ('1,234', '10^400', 'more than 10^300')
    """
    if number == inf:
        return "more than 10^300"
    return f"{number:,.0f}" if not number >= 10**15 else f"10^{log10(number):.0f}"


def duration(seconds: float) -> str:
    """A time in the largest unit of which it is two or more.

    >>> duration(0.25), duration(90), duration(7500), duration(1e40)
    ('0.25 seconds', '90 seconds', '2 hours', '10^33 years')
    """
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{rounded(seconds / length)} {unit}s"
    return f"{seconds:.2g} seconds"


def power(base: float, exponent: float) -> float:
    """base^exponent, infinite where no float holds it.

    >>> power(3, 4), power(3, 10**12)
    (81.0, inf)
    """
    try:
        return float(base) ** exponent
    except OverflowError:
        return inf


def binomial(n: float, k: float) -> float:
    """C(n, k), infinite where no float holds it.

    >>> round(binomial(10, 3)), binomial(10**9, 10**8)
    (120, inf)
    """
    size = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(size) if size < 700 else inf


def bits(width: float) -> float:
    """How many bits longer a number gets by a sum of ``width`` products with integers from -9 to 9."""
    return log(9 * width + 1, 2)


def integer_seconds(operations: float, length: float = 0) -> float:
    """For Python integers of ``length`` bits, each multiplied by a short one and added."""
    return operations * (1.5e-7 + 1e-10 * length)


def long_seconds(operations: float, length: float, other: float) -> float:
    """For products of two long Python integers of ``length`` and ``other`` bits; Python's digits have 30 bits."""
    return operations * 3e-10 * (length / 30) * (other / 30)


def product_seconds(count: float, rows: float, inner: float, columns: float = 1) -> float:
    """For :func:`engram.exact.product` of ``(rows, inner)`` and ``(inner, columns)``: call, conversion, product."""
    return count * (3e-5 * (1 + inner / 64) + 1e-8 * rows * inner + 1e-9 * rows * inner * columns)


def sample_seconds(count: float) -> float:
    """For random residues (:func:`engram.exact.sample`)."""
    return 2e-8 * count


def rank_seconds(rows: float, columns: float, rank: float = inf) -> float:
    """For FLINT's elimination of a matrix of at most this rank."""
    return 5e-10 * rows * columns * min(rows, columns, rank)
