"""What arithmetic costs, estimated from its sizes alone: floats that may be infinite, never a number that explodes.

The constants were measured on one core of a server of 2023; an estimate is right to a factor of about five.
"""

from dataclasses import dataclass
from math import exp, inf, lgamma, log

MB = 1e-6


@dataclass(frozen=True)
class Cost:
    """Seconds of one core, and megabytes at the peak."""

    seconds: float
    megabytes: float


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
    """The bits that a sum of ``width`` products with integers from -9 to 9 adds to the length of a number."""
    return log(9 * width + 1, 2)


def integer_seconds(operations: float, length: float = 0) -> float:
    """Python's integers of ``length`` bits, each multiplied by a short one and added."""
    return operations * (1.5e-7 + 1e-10 * length)


def long_seconds(operations: float, length: float, other: float) -> float:
    """Products of two long integers, of so many bits each; 30 bits are a digit."""
    return operations * 3e-10 * (length / 30) * (other / 30)


def product_seconds(count: float, rows: float, inner: float, columns: float = 1) -> float:
    """:func:`engram.certify._field.product` of ``(rows, inner)`` and ``(inner, columns)``: calls, conversion, work."""
    return count * (3e-5 * (1 + inner / 64) + 1e-8 * rows * inner + 1e-9 * rows * inner * columns)


def sample_seconds(words: float) -> float:
    """Random words, reduced."""
    return 2e-8 * words


def rank_seconds(rows: float, columns: float, rank: float = inf) -> float:
    """FLINT's elimination of a matrix of at most this rank."""
    return 5e-10 * rows * columns * min(rows, columns, rank)
