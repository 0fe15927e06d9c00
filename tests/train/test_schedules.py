"""Schedules: the rate of every step by hand, and that a run in the middle of each goes on bit for bit."""

import math
from pathlib import Path
from typing import Any

import pytest

from engram.errors import RunError
from engram.tasks import Copy
from engram.train import Optimiser, RunDirectory, Settings, load_network, make_fabric, resume, train
from engram.train._checkpoint import Checkpoint, load, save
from engram.train._loop import Loop
from engram.train._schedule import Schedule
from tiers import slow_but

FACTORS: dict[str, tuple[dict[str, Any], list[float]]] = {
    "constant": ({}, [1.0] * 6),
    "step": ({"schedule": "step", "step_size": 2, "step_factor": 0.5}, [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]),
    "cosine": (
        {"schedule": "cosine", "cosine_steps": 4},
        [1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0.0, 0.0],
    ),
    "cosine to a share": (
        {"schedule": "cosine", "cosine_steps": 2, "cosine_end": 0.2},
        [1.0, 0.6, 0.2, 0.2, 0.2, 0.2],
    ),
    "warm-up": ({"warmup": 4}, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]),
    "warm-up of one step": ({"warmup": 1}, [1.0] * 6),
    "warm-up and step": (
        {"warmup": 4, "step_size": 3, "step_factor": 0.1},
        [0.25, 0.5, 0.75, 0.1, 0.1, 0.1],
    ),
    "warm-up and cosine": (
        {"warmup": 2, "schedule": "cosine", "cosine_steps": 2},
        [0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
    ),
}


@pytest.mark.parametrize("case", FACTORS)
def test_factors(case: str) -> None:
    given, expected = FACTORS[case]
    schedule = Schedule(Optimiser(**given))
    assert [schedule.factor(k) for k in range(6)] == pytest.approx(expected, abs=1e-15)
    schedule.validated(better=False)  # only a plateau listens
    assert [schedule.factor(k) for k in range(6)] == pytest.approx(expected, abs=1e-15)


def test_a_plateau() -> None:
    """After two validations in a row that are not better; a better one starts the count."""
    schedule = Schedule(Optimiser(plateau=2, plateau_factor=0.1, warmup=2))
    found = []
    for better in (True, False, True, False, False, False, False, False):
        schedule.validated(better)
        found.append(schedule.factor(5))
    assert found == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])
    assert schedule.factor(0) == pytest.approx(0.005)
    assert schedule.state() == {"stale_rate": 1, "falls": 2}
    again = Schedule(Optimiser(plateau=2, plateau_factor=0.1, warmup=2))
    again.restore(schedule.state())  # type: ignore[arg-type]
    assert again.state() == schedule.state()
    assert [again.factor(k) for k in range(3)] == [schedule.factor(k) for k in range(3)]
    again.validated(better=False)  # one more, and the rate falls: the one before the file counts
    assert again.factor(5) == pytest.approx(0.001)


SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {},
    "plateau": {"plateau": 1, "plateau_factor": 0.5, "lr": 0.6},
    "step": {"step_size": 3, "step_factor": 0.5},
    "cosine": {"schedule": "cosine", "cosine_end": 0.1},
    "warm-up": {"warmup": 9},
    "warm-up and cosine": {"schedule": "cosine", "warmup": 5},
    "warm-up and plateau": {"plateau": 1, "warmup": 9, "lr": 0.3},
}


WAITS = {"plateau": 3, "plateau_factor": 0.5, "lr": 0.6}
CASES = [("exprnn", case) for case in (*SCHEDULES, "a wait for a plateau")]
STIEFEL = [("full-capacity", case) for case in SCHEDULES]
QUICK = [*CASES, ("full-capacity", "plateau"), ("full-capacity", "warm-up and cosine")]


@pytest.mark.parametrize(("model", "case"), slow_but(CASES + STIEFEL, QUICK))
def test_a_run_in_the_middle_goes_on_bit_for_bit(model: str, case: str, small: Any, tmp_path: Path) -> None:
    """Stopped at every second step and restored from a file, against one that was left alone."""
    settings = small(None, model, steps=12, validate_every=2, **SCHEDULES.get(case, WAITS))

    def go(loop: Loop, steps: int) -> list[tuple[float, float]]:
        found = []
        for _ in range(steps):
            loss, _ = loop.train_step()
            found.append((loss, loop.optimizers.lr))
            if loop.validation_due:
                loop.validate()
        return found

    whole = Loop(settings, make_fabric(settings))
    expected = go(whole, 12)
    found: list[tuple[float, float]] = []
    waited = []
    for _ in range(4):
        loop = Loop(settings, make_fabric(settings))
        if found:
            loop.restore(load(tmp_path))
        found += go(loop, 3)
        waited.append(loop.schedule.stale)
        save(tmp_path, loop.state())
    assert found == expected
    assert _same(loop.state(), whole.state())
    rates = [rate for _, rate in expected]
    assert (len(set(rates)) > 1) == (case != "constant")  # else nothing would be tested
    assert any(waited[:-1]) or case in SCHEDULES


def _same(one: Checkpoint, two: Checkpoint) -> bool:
    values = [{name: value for name, value in each.values.items() if name != "seconds"} for each in (one, two)]
    return values[0] == values[1] and all(one.tensors[name].equal(two.tensors[name]) for name in one.tensors)


def rates(run: RunDirectory) -> list[float]:
    return [line["lr"] for line in run.metrics() if line["split"] == "train"]


def test_the_rates_are_in_the_lines(small: Any, tmp_path: Path) -> None:
    """Of every step, and all groups follow."""
    run = train(small(steps=4, lr=1e-2, step_size=2, step_factor=0.1, warmup=2), tmp_path, "run")
    assert rates(run) == pytest.approx([5e-3, 1e-2, 1e-3, 1e-3])
    (plain, slow) = load(run.folder).values["optimizers"][0]["dict"][1][1]["list"]
    assert [dict(group["dict"])["lr"]["value"] for group in (plain, slow)] == pytest.approx([1e-3, 1e-4])


def test_a_rate_of_zero_changes_nothing(small: Any, tmp_path: Path) -> None:
    usual = {"model": "lstm", "schedule": "cosine", "cosine_steps": 3, "validate_every": 0}
    run, at = (train(small(steps=steps, **usual), tmp_path, str(steps)) for steps in (6, 3))
    assert rates(run)[3:] == [0.0] * 3
    ours, others = (load_network(each.folder, best=False).state_dict() for each in (run, at))
    assert all(ours[name].equal(others[name]) for name in ours)


def test_a_cosine_ends_where_the_run_was_to_end(small: Any, tmp_path: Path) -> None:
    """A run that is trained further goes on with the rate that it ended with; one that was stopped is not changed."""
    run = train(small(steps=4, lr=1.0, optimizer="sgd", schedule="cosine", cosine_end=0.25), tmp_path, "run")
    assert run.settings.optimiser.cosine_steps == 4
    run = resume(run.folder, steps=6)
    assert rates(run)[4:] == pytest.approx([0.25, 0.25])
    with pytest.raises(RunError, match="is at step 6 already"):
        resume(run.folder, steps=5)


def test_the_length_of_a_cosine_decides_the_result() -> None:
    """So it is in the fingerprint, where the number of steps is not."""
    cosine = Settings.of(Copy(3), schedule="cosine", steps=10)
    assert cosine.fingerprint() != cosine.replace(steps=20).fingerprint()
    assert cosine.fingerprint() == cosine.replace(steps=20, cosine_steps=10).fingerprint()
