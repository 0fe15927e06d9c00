"""Dual numbers: derivatives without rounding, and functions of which only the derivative is known."""

import numpy as np
import pytest
from flint import nmod

from engram.errors import OptionError
from engram.exact import PRIME, Dual, Symbols, residues, variables


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=object)


def test_rules() -> None:
    """Against the derivatives by hand, in integers."""
    x, y, c = variables([whole(2, 3), whole(5, 7), np.array(4, dtype=object)])
    cases = {
        "sum": (x + y, [7, 10], [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0]]),
        "product": (x * y, [10, 21], [[5, 0, 2, 0, 0], [0, 7, 0, 3, 0]]),
        "scaled": (c * x, [8, 12], [[4, 0, 0, 0, 2], [0, 4, 0, 0, 3]]),
        "dot": (x @ y, 31, [5, 7, 2, 3, 0]),
    }
    for name, (found, value, slope) in cases.items():
        assert np.array_equal(found.value, value), name
        assert np.array_equal(found.slope, slope), name


def test_matrices() -> None:
    matrix, x = variables([np.arange(1, 7, dtype=object).reshape(2, 3), whole(1, 0, 2)])
    found = matrix @ x
    assert found.value.tolist() == [7, 16]
    assert found.slope.tolist() == [[1, 0, 2, 0, 0, 0, 1, 2, 3], [0, 0, 0, 1, 0, 2, 4, 5, 6]]


def test_quotients_modulo_a_prime() -> None:
    """(a/b)' = a'/b - a b'/b^2; halves too."""
    a, b = (nmod(k, 101) for k in (3, 5))
    x, y = variables([np.array(a, dtype=object), np.array(b, dtype=object)])
    found = x / y
    assert found.value[()] == a / b
    assert found.slope.tolist() == [1 / b, -a / b**2]
    assert (x / 2).value[()] * 2 == a
    assert [(x / 2).slope[k] * 2 for k in (0, 1)] == [1, 0]
    with pytest.raises(OptionError, match="use another seed or a larger prime"):
        x / Dual(np.array(nmod(0, 101), dtype=object), y.slope)


def test_symbols() -> None:
    """The same key has the same value; exp' = exp, tanh' = 1 - tanh^2, by the chain rule."""
    symbols = Symbols(PRIME, 1, 50)
    (x,) = variables([residues(PRIME, 0, 0, 2)])
    e, t, again = symbols.exp(x, "a"), symbols.tanh(x * x, "b"), symbols.exp(x + x, "a")
    assert np.array_equal(e.value, again.value)
    assert not np.array_equal(e.value, t.value)
    for k in range(2):
        assert e.slope[k, k] == e.value[k]
        assert again.slope[k, k] == 2 * e.value[k]
        assert t.slope[k, k] == 2 * x.value[k] * (1 - t.value[k] ** 2)
        assert e.slope[k, 1 - k] == t.slope[k, 1 - k] == 0
    assert np.array_equal(Symbols(PRIME, 1, 50).exp(x, "another key").value, e.value)  # a function of seed and order
    assert not np.array_equal(Symbols(PRIME, 2, 50).exp(x, "a").value, e.value)
