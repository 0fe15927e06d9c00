"""What a call changes for as long as it takes (locks, signals, threads, modes, random numbers) is then as before."""

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.errors import BusyError
from engram.loops import use_threads
from engram.loops._choice import threads as threads_of_loops
from engram.sweep import make_plan, read_sweep
from engram.sweep._together import _fits, kind_of
from engram.tasks import Copy
from engram.train import (
    RunDirectory,
    Settings,
    evaluate,
    find_lr,
    load_network,
    plan,
    resume,
    train,
    train_together,
    why_not_together,
)
from engram.train import _together as together
from engram.train import _why_not_together as reasons
from engram.train._files import locked
from engram.train._objective import score_names


class Left(Exception):
    """Of a test."""


def made(**flat: Any) -> Settings:
    given = {"hidden": 4, "batch": 4, "steps": 4, "validate_every": 2, "valid_samples": 4, "test_samples": 4}
    return Settings.of(Copy(3, 2), "rnn", **{**given, "threads": 2, **flat})


def world() -> list[Any]:
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        torch.get_num_threads(),
        threads_of_loops(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        float(torch.tensor([1e-39]) * 1.0) != 0,  # denormal numbers
        *(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)),
    ]


@pytest.fixture
def own_world() -> Iterator[None]:
    """Three threads, four of the loops, and somebody's own handlers."""
    threads = torch.get_num_threads()
    before = {n: signal.signal(n, lambda *_: None) for n in (signal.SIGINT, signal.SIGTERM)}
    torch.set_num_threads(3)
    torch.set_flush_denormal(False)
    try:
        with use_threads(4):
            yield
    finally:
        torch.set_num_threads(threads)
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(*_: object) -> None:
    raise Left


def sweep_plan(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text("seeds = 2\n[base]\ntask = 'copy'\nmodel = 'rnn'\nparameters = 300\nsteps = 3")
    make_plan(read_sweep(path))


def as_one(folder: Path, **options: Any) -> None:
    train_together([made(seed=k) for k in range(2)], [folder / f"m{k}" for k in range(2)], **options)


CALLS: dict[str, Callable[[Path], object]] = {
    "train": lambda folder: train(made(), folder, "new"),
    "resume": lambda folder: resume(folder / "run", steps=3),
    "train_together": as_one,
    "find_lr": lambda folder: find_lr(made(lr=0.01), lr_steps=20, lr_from=1e-5, lr_to=1e-1),
    "plan": lambda folder: plan(made(), measured=1),
    "evaluate": lambda folder: evaluate(folder / "run"),
    "load_network": lambda folder: load_network(folder / "run"),
    "why_not_together": lambda folder: why_not_together([made(), made(seed=1)]),
    "kind_of": lambda folder: kind_of(made()),
    "score_names": lambda folder: score_names(Copy(3, 2)),
    "the plan of a sweep": sweep_plan,
}
LEFT: dict[str, Callable[[Path], object]] = {
    "train": lambda folder: train(made(), folder, "new", tell=leave),
    "resume": lambda folder: resume(folder / "run", steps=3, tell=leave),
    "train_together": lambda folder: as_one(folder, tell=leave),
    "evaluate": lambda folder: evaluate(folder / "run", after_batch=leave),
}


def name_of(how: str) -> str:
    return how.partition(",")[0]


@pytest.mark.usefixtures("own_world")
@pytest.mark.parametrize("how", [*CALLS, *(f"{name}, left in the middle" for name in LEFT)])
def test_the_world_is_as_before(how: str, tmp_path: Path) -> None:
    if name_of(how) in ("resume", "evaluate", "load_network"):
        train(made(steps=1), tmp_path, "run")
    reasons._known.clear()
    _fits.cache_clear()
    random.seed(3)
    torch.manual_seed(3)
    before, name = world(), name_of(how)
    if name == how:
        CALLS[name](tmp_path)
    else:
        with pytest.raises(Left):
            LEFT[name](tmp_path)
    assert world() == before
    for folder in (path.parent for path in tmp_path.glob("*/run.json")):
        with locked(folder):  # nobody has the lock any more
            pass


@pytest.mark.parametrize("how", ["train", "resume", "train_together"])
def test_a_run_that_is_trained_is_locked(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of them, from the first step to the last."""
    monkeypatch.setattr(together, "TELL_EVERY", 0.0)
    if how == "resume":
        train(made(threads=1, steps=4), tmp_path, "run")
    looked: list[tuple[str, float]] = []

    def look(*told: float) -> None:
        for folder in (path.parent for path in tmp_path.glob("*/run.json")):
            with pytest.raises(BusyError, match="is in use by another process"), locked(folder):
                pass
            looked.append((folder.name, told[-2]))

    if how == "train_together":
        train_together([made(seed=k, threads=1) for k in range(2)], [tmp_path / "m0", tmp_path / "m1"], tell=look)
        assert {name for name, _ in looked} == {"m0", "m1"}
        assert {step for _, step in looked} == {1, 2, 3, 4}
    elif how == "train":
        train(made(threads=1), tmp_path, "new", tell=look)
        assert looked == [("new", step) for step in (1, 2, 3, 4)]
    else:
        resume(tmp_path / "run", steps=7, tell=look)
        assert looked == [("run", step) for step in (5, 6, 7)]


def test_an_error_of_the_program_ends_all_members(tmp_path: Path) -> None:
    """Their run.json says so, and they go on from where they were."""
    settings, folders = [made(seed=k) for k in range(2)], [tmp_path / f"m{k}" for k in range(2)]
    with pytest.raises(Left):
        train_together(settings, folders, tell=leave)
    for folder in folders:
        run = RunDirectory(folder)
        assert (run.status, run.facts["reason"]) == ("failed", "an error of the program")
    assert [run.status for run in train_together(settings, folders)] == ["done", "done"]
