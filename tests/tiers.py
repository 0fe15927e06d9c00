"""Which cases of a large table belong to the fast tier of tests: ``make test-all`` runs the others too."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

MODELS_OF_EACH_KIND = {"exprnn", "urnn", "full-capacity", "lstm", "goru", "s4d", "rac", "min-gru"}
"""Maps, complex weights, a matrix that StiefelStep moves, gates, systems, products, scans: one of each kind."""


def slow_but(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test of which only the ``quick`` ones are in the fast tier; several values are a plain tuple."""
    table = list(cases)
    assert quick
    assert all(case in table for case in quick)
    return [case if case in quick else slow(*(case if type(case) is tuple else (case,))) for case in table]


def slow(*values: Any) -> Any:
    """One such case by itself."""
    return pytest.param(*values, marks=pytest.mark.slow)
