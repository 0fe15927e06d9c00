"""Timing and averaging, with callables whose order and length are known."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.bench.layers import PAIRS, _summary


def test_contestants_take_turns() -> None:
    """One warm-up of each, which is not counted, then rounds in which each runs once, in an order of its own."""
    calls: list[str] = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, repeats=3)
    rounds = ["".join(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert rounds[0] == "abc"
    assert ["".join(sorted(each)) for each in rounds] == ["abc"] * 4
    assert len(set(rounds)) > 1
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_another_clock() -> None:
    """Asked before and after each counted call."""
    ticks = iter(range(0, 100, 3))
    assert interleaved({"a": lambda: None}, repeats=2, clock=lambda: next(ticks)) == {"a": [3, 3]}


def test_seconds_are_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only the calls turn: 0.25 and 2 seconds, and nothing in between is counted."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def take(seconds: float) -> None:
        now[0] += seconds

    found = interleaved({"fast": lambda: take(0.25), "slow": lambda: take(2.0)}, repeats=4)
    assert found == {"fast": [0.25] * 4, "slow": [2.0] * 4}


def test_a_contestant_may_measure_itself() -> None:
    """One in another process says how long its work took, without the way there and back."""
    assert interleaved({"a": lambda: 0.25}, repeats=3) == {"a": [0.25] * 3}


def test_a_failing_contestant_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        interleaved({"a": lambda: 1 / 0}, repeats=1)


def test_spread() -> None:
    assert spread([0.003, 0.001, 0.010]) == {"median_ms": 3.0, "min_ms": 1.0, "max_ms": 10.0}


def test_geomean_by_hand() -> None:
    assert geomean([0.5, 2.0]) == pytest.approx(1.0)
    assert geomean([2.0, 4.0, 8.0]) == pytest.approx(4.0)
    assert geomean(iter([3.0])) == pytest.approx(3.0)


@given(ratios=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), factor=st.floats(1e-3, 1e3))
def test_geomean_scales_and_turns(ratios: list[float], factor: float) -> None:
    """Between the extremes; a common factor comes out; of the inverses it is the inverse. Rounding: 1e-9."""
    mean = geomean(ratios)
    assert min(ratios) * (1 - 1e-9) <= mean <= max(ratios) * (1 + 1e-9)
    assert geomean(factor * r for r in ratios) == pytest.approx(factor * mean, rel=1e-9)
    assert geomean(1 / r for r in ratios) == pytest.approx(1 / mean, rel=1e-9)


def test_summary_of_a_hand_made_table() -> None:
    """Ratios of the medians, size by size: 1/2 and 2/1 of torch.nn.RNN; who did not run is left out."""
    rows = [
        {"contestant": name, "median_ms": value}
        for name, values in {"engram": (1.0, 2.0), "torch.nn.RNN": (2.0, 1.0), "floor": (0.5, 0.5)}.items()
        for value in values
    ]
    found = _summary(rows)
    assert found.keys() == {"engram/torch.nn.RNN", "engram/floor"}
    assert found["engram/torch.nn.RNN"] == {"geomean": pytest.approx(1.0), "worst": 2.0}
    assert found["engram/floor"] == {"geomean": pytest.approx(math.sqrt(8)), "worst": 4.0}
    assert len(PAIRS) == len(set(PAIRS))


def test_machine_says_what_the_numbers_depend_on() -> None:
    found = machine()
    assert found.keys() >= {"processor", "cores", "load_average", "torch", "python", "loops"}
    assert found["loops"].keys() == {"executor", "float32", "float64"}
    assert len(found["load_average"]) == 3
