"""How far a benchmark is: counted by rounds, told with the time left."""

import io
from typing import Any

import pytest
from rich.console import Console

from engram.bench import token, train
from engram.bench._measure import after_round, interleaved
from engram.cli import _bench_progress
from engram.cli._bench import RACES
from engram.cli._bench_progress import BenchProgress


def test_rounds_are_told() -> None:
    told: list[float] = []
    before = after_round.set(told.append)
    try:
        interleaved({"a": int, "b": int}, 4)
    finally:
        after_round.reset(before)
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two races of two rounds, ten seconds each round: at each line the share done, and the rest at the same pace."""
    now = [0]

    def tick() -> int:
        return now[0]

    monkeypatch.setattr(_bench_progress.time, "monotonic", tick)
    out = io.StringIO()
    progress = BenchProgress(Console(file=out, width=40), races=2)
    with progress.shown() as tell:
        for share in (0.5, 1.0):
            now[0] += 10
            after_round.get()(share)
        tell("[first] of a long line that is not wrapped at all")
        now[0] += 10
        after_round.get()(0.5)
        tell("second")
    assert out.getvalue().splitlines() == [
        "[first] of a long line that is not wrapped at all [50% done, about 20 s left]",
        "second [75% done, about 10 s left]",
    ]
    after_round.get()(1.0)  # nobody listens any more
    assert progress.done == 1


def test_the_bar_of_a_terminal() -> None:
    """It stands at the share that is done, and says the time left; lines of results have neither."""
    out = io.StringIO()
    progress = BenchProgress(Console(file=out, width=100, force_terminal=True), races=4)
    assert progress.left() == ""
    progress.round(1.0)
    progress.round(0.5)
    (task,) = progress.bar.tasks
    assert task.completed == _bench_progress.TOTAL * 1.5 / 4
    assert str(task.description) == progress.left() != ""
    progress.tell("a line")
    assert out.getvalue() == "a line\n"


def test_more_races_than_foreseen_are_not_more_than_all() -> None:
    progress = BenchProgress(Console(file=io.StringIO()), races=1)
    for _ in range(3):
        progress.round(1.0)
    assert progress.part() == 0.99


@pytest.mark.parametrize("name", ["train", "token"])
def test_the_bar_counts_to_what_is_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every race of a benchmark, as its loop begins one."""
    begun = []
    module: Any = {"train": train, "token": token}[name]

    def raced(calls: Any, *_: object) -> dict[str, list[float]]:
        begun.append(1)
        return {name: [1.0] for name in calls}

    monkeypatch.setattr(module, "interleaved", raced)
    for quick in (True, False):
        begun.clear()
        RACES[name].run(quick, 1, lambda line: None)
        assert len(begun) == RACES[name].sizes[0 if quick else 1]
