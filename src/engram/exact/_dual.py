"""Numbers with their derivatives, in exact arithmetic: differentiation of a program without rounding.

A dual number is a value and its derivatives by some variables; sums, products and quotients follow the rules of
calculus. Functions such as tanh have no exact values. They are replaced by symbols (:class:`Symbols`): the value is any
residue, and the derivative follows from the value, as tanh' = 1 - tanh^2. What is equal for any values is equal for
those of tanh; what differs agrees at random residues only by chance, with a probability of the degree over p.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.errors import OptionError
from engram.exact._network import Exact, residues


@dataclass(frozen=True)
class Dual:
    """An array of exact numbers, ``(*)``, and its derivatives by K variables, ``(*, K)``.

    >>> x, y = variables([np.array([3, 4], dtype=object), np.array(5, dtype=object)])
    >>> (x @ x * y).value, (x @ x * y).slope
    (array(125, dtype=object), array([30, 40, 25], dtype=object))
    """

    value: Exact
    slope: Exact

    def __add__(self, other: "Dual") -> "Dual":
        return Dual(array(self.value + other.value), self.slope + other.slope)

    def __mul__(self, other: "Dual") -> "Dual":
        a, b = self.value[..., None], other.value[..., None]
        return Dual(array(self.value * other.value), a * other.slope + b * self.slope)

    def __matmul__(self, other: "Dual") -> "Dual":
        """Matrix times vector, or vector times vector."""
        inner = (self.slope * other.value[:, None]).sum(-2)
        return Dual(array(self.value @ other.value), array(self.value @ other.slope) + inner)

    def __truediv__(self, other: "Dual | int") -> "Dual":
        if isinstance(other, int):
            return Dual(array(self.value / other), self.slope / other)
        try:
            inverse = array(1 / other.value)
        except ZeroDivisionError:
            raise OptionError("a sum of symbols is 0 modulo the prime: use another seed or a larger prime") from None
        return self * Dual(inverse, -array(inverse * inverse)[..., None] * other.slope)

    def mapped(self, value: Exact, slope: Exact) -> "Dual":
        """A function of each number, from its values and derivatives there."""
        return Dual(value, slope[..., None] * self.slope)


def variables(values: Sequence[Exact]) -> list[Dual]:
    """Arrays as variables: each of their numbers has the derivative 1 by itself, 0 by all others.

    Args:
        values: arrays of exact numbers.
    """
    count = sum(value.size for value in values)
    found, first = [], 0
    for value in values:
        slope = np.zeros((value.size, count), dtype=object)
        slope[np.arange(value.size), first + np.arange(value.size)] = 1
        found.append(Dual(value, slope.reshape(*value.shape, count)))
        first += value.size
    return found


def array(value: Any) -> Exact:
    """Also of a single number, which numpy hands out bare."""
    return np.asarray(value, dtype=object)


class Symbols:
    """tanh and exp as random residues, one per key: the same key, the same values.

    Args:
        prime: p.
        seed: random seed of the values.
        purpose: of the first value (:func:`engram.exact.sample`); each further one takes the next.
    """

    def __init__(self, prime: int, seed: int, purpose: int = 0) -> None:
        self.values: dict[Hashable, Exact] = {}
        self._asked = prime, seed, purpose

    def _value(self, key: Hashable, shape: tuple[int, ...]) -> Exact:
        if key not in self.values:
            prime, seed, purpose = self._asked
            self.values[key] = residues(prime, seed, purpose + len(self.values), *shape)
        return self.values[key]

    def tanh(self, x: Dual, key: Hashable) -> Dual:
        value = self._value(key, x.value.shape)
        return x.mapped(value, array(1 - value * value))

    def exp(self, x: Dual, key: Hashable) -> Dual:
        value = self._value(key, x.value.shape)
        return x.mapped(value, value)
