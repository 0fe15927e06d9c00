"""Automata and linear BIRNNs in integers."""

from collections.abc import Sequence
from typing import Any

import pytest

from engram.certify import AutomatonClaim, certify
from engram.convert import WeightedAutomaton
from engram.errors import OptionError


@pytest.mark.parametrize(("states", "symbols"), [(1, 1), (1, 3), (4, 2), (9, 3), (2, 1)])
def test_it_holds(states: int, symbols: int) -> None:
    found = certify(AutomatonClaim(states, symbols), seed=1)
    assert found.holds
    assert found.found["hankel_rank"] == found.found["rank_of_two_copies"] == states
    assert found.found["equal_words"] == 16


def test_what_does_not_hold() -> None:
    """A rank that is too small, or a word of another value, and the claim does not hold."""
    claim = AutomatonClaim(3)
    assert not claim.holds({"compared_words": 16, "equal_words": 16, "hankel_rank": 2, "rank_of_two_copies": 2})
    assert not claim.holds({"compared_words": 16, "equal_words": 15, "hankel_rank": 3, "rank_of_two_copies": 3})


def test_another_network_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the automaton read its words backwards."""
    value = WeightedAutomaton.value

    def backwards(self: WeightedAutomaton, word: Sequence[int]) -> Any:
        return value(self, word[::-1])

    monkeypatch.setattr(WeightedAutomaton, "value", backwards)
    assert not certify(AutomatonClaim(3), seed=1).holds


@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_sizes(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(OptionError, match="must be at least 1"):
        AutomatonClaim(*sizes)
