"""Settings as TOML: what Python's own reader reads back is what was written."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.train import to_toml

PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
KEYS = st.text(min_size=1, max_size=5)
ROWS = st.lists(st.dictionaries(KEYS, PLAIN, max_size=2), max_size=2)
VALUES = st.recursive(
    PLAIN | st.lists(PLAIN, max_size=2) | ROWS,
    lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_there_and_back(values: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(values)) == values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"a": None, "b": 1}, "b = 1\n"),
        ({"a": {}}, ""),
        ({"a": (1, 2)}, "a = [1, 2]\n"),
        ({"a b": 1e-8}, '"a b" = 1e-08\n'),
        ({"a": {"x": 1}, "b": 2}, "b = 2\n\n[a]\nx = 1\n"),
        ({"a": [{"x": 1}, {"x": 2}]}, "\n[[a]]\nx = 1\n\n[[a]]\nx = 2\n"),
        ({"a": "\x7f\n"}, 'a = "\\u007f\\n"\n'),
        ({"model": {"options": {"x": None}, "z": None}}, '\n[model]\n\n[model.options]\nx = "None"\n'),
    ],
)
def test_texts(values: dict[str, Any], text: str) -> None:
    assert to_toml(values) == text
