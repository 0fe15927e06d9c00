"""Settings at their limits: the last value that is taken, and the first that is refused."""

from dataclasses import fields
from math import inf, nan
from typing import Any, get_args, get_type_hints

import pytest

from engram.errors import DTypeError, EngramError, OptionError
from engram.tasks import Copy, PixelMNIST
from engram.train import Budget, Group, Machine, Optimiser, Settings

BELOW_1 = 1 - 2**-53
"""The last number of float64 below one."""
AT: list[tuple[type, dict[str, Any], str, Any, Any]] = [
    (Budget, {}, "steps", 0, -1),
    (Budget, {}, "epochs", 1, 0),
    (Budget, {}, "batch", 1, 0),
    (Budget, {}, "samples", 0, -1),
    (Budget, {}, "valid_samples", 0, -1),
    (Budget, {}, "test_samples", 0, -1),
    (Budget, {}, "validate_every", 0, -1),
    (Budget, {}, "patience", 0, -1),
    (Budget, {}, "stop_at", -inf, nan),
    (Machine, {}, "processes", 1, 0),
    (Machine, {}, "processes", 128, 129),
    (Machine, {}, "threads", 0, -1),
    (Machine, {}, "threads", 1024, 1025),
    (Machine, {}, "log_every", 1, 0),
    (Machine, {}, "probe_every", 0, -1),
    (Machine, {}, "save_every", 0.0, -1e-9),
    (Machine, {}, "save_every", 1e300, inf),
    (Optimiser, {}, "lr", 1e-300, 0.0),
    (Optimiser, {}, "lr", 1e300, inf),
    (Optimiser, {}, "lr_orthogonal", 1e-300, 0.0),
    (Optimiser, {}, "lr_orthogonal", 1e300, inf),
    (Optimiser, {}, "weight_decay", 0.0, -1e-9),
    (Optimiser, {}, "weight_decay", 1e300, inf),
    (Optimiser, {}, "clip", 0.0, -1e-9),
    (Optimiser, {}, "clip", 1e300, inf),
    (Optimiser, {}, "eps", 1e-300, 0.0),
    (Optimiser, {}, "eps", 1e300, inf),
    (Optimiser, {"name": "rmsprop"}, "alpha", 0.0, -1e-9),
    (Optimiser, {"name": "rmsprop"}, "alpha", BELOW_1, 1.0),
    (Optimiser, {}, "betas", (0.0, 0.0), (-1e-9, 0.0)),
    (Optimiser, {}, "betas", (0.0, 0.5), (0.0, -1e-9)),
    (Optimiser, {}, "betas", (BELOW_1, BELOW_1), (1.0, 0.5)),
    (Optimiser, {}, "betas", (0.5, BELOW_1), (0.5, 1.0)),
    (Optimiser, {}, "betas", (0.5, 0.5), (0.5, 0.5, 0.5)),
    (Optimiser, {"name": "sgd"}, "momentum", 0.0, -1e-9),
    (Optimiser, {"name": "rmsprop"}, "momentum", BELOW_1, 1.0),
    (Optimiser, {}, "momentum", 0.0, 1e-9),  # adam has none
    (Optimiser, {}, "plateau", 0, -1),
    (Optimiser, {"schedule": "plateau"}, "plateau", 1, 0),
    (Optimiser, {"plateau": 1}, "plateau_factor", 1e-300, 0.0),
    (Optimiser, {"plateau": 1}, "plateau_factor", BELOW_1, 1.0),
    (Optimiser, {}, "step_size", 0, -1),
    (Optimiser, {"schedule": "step"}, "step_size", 1, 0),
    (Optimiser, {"step_size": 1}, "step_factor", 1e-300, 0.0),
    (Optimiser, {"step_size": 1}, "step_factor", BELOW_1, 1.0),
    (Optimiser, {"schedule": "cosine"}, "cosine_end", 0.0, -1e-9),
    (Optimiser, {"schedule": "cosine"}, "cosine_end", 1.0, 1 + 1e-9),
    (Optimiser, {"schedule": "cosine"}, "cosine_steps", 1, 0),
    (Optimiser, {}, "warmup", 0, -1),
    (Group, {}, "pattern", "*", ""),
    (Group, {"pattern": "*"}, "lr", 1e-300, 0.0),
    (Group, {"pattern": "*"}, "lr", 1e300, inf),
    (Group, {"pattern": "*"}, "weight_decay", 0.0, -1e-9),
    (Group, {"pattern": "*"}, "weight_decay", 1e300, inf),
]


@pytest.mark.parametrize(("kind", "beside", "name", "taken", "refused"), AT)
def test_at_the_limit(kind: type, beside: dict[str, Any], name: str, taken: Any, refused: Any) -> None:
    assert getattr(kind(**beside, **{name: taken}), name) == taken
    with pytest.raises((OptionError, DTypeError), match=name):
        kind(**beside, **{name: refused})


NUMBERS = [
    (kind, name, int if int in (get_args(hint) or (hint,)) else float)
    for kind in (Budget, Machine, Optimiser, Group)
    for name, hint in get_type_hints(kind).items()
    if {int, float} & {*(get_args(hint) or (hint,))}
]
BESIDE: dict[str, dict[str, Any]] = {"alpha": {"name": "rmsprop"}, "momentum": {"name": "sgd"}}


@pytest.mark.parametrize(("kind", "name", "number"), NUMBERS)
def test_every_number_must_be_one(kind: type, name: str, number: type) -> None:
    """A whole one where it counts; neither True nor a text; and no number is NaN."""
    beside = {"pattern": "*"} if kind is Group else BESIDE.get(name, {})
    for wrong in (True, "3", [3], 2.5 if number is int else nan):
        with pytest.raises(EngramError, match=name):
            kind(**beside, **{name: wrong})


def test_numbers_were_found() -> None:
    """Those of the groups' docstrings, and not a few of them."""
    assert len(NUMBERS) >= 30
    assert {("lr", float), ("batch", int), ("valid_samples", int), ("stop_at", float)} <= {
        (name, number) for _, name, number in NUMBERS
    }
    assert all(name in {each.name for each in fields(kind)} for kind, name, _ in NUMBERS)


@pytest.mark.parametrize("waits", [{"patience": 1}, {"plateau": 1}, {"stop_at": 0.5}])
def test_what_waits_for_validations_needs_them(waits: dict[str, Any]) -> None:
    """Also where it is the task that has none."""
    images = PixelMNIST(valid=0)
    assert not images.has_validation
    assert Settings.of(Copy(5), validate_every=1, **waits).budget.validate_every == 1
    for task, every in ((Copy(5), 0), (images, 10), (images, None)):
        with pytest.raises(OptionError, match="validation"):
            Settings.of(task, validate_every=every, **waits)
    assert Settings.of(images, steps=3, validate_every=10, threads=1).resolved().budget.validate_every == 0


@pytest.mark.parametrize(
    ("given", "steps", "every"),
    [
        ({"samples": 3, "batch": 8}, 1, 1),  # a set smaller than a batch is one batch
        ({"samples": 8, "batch": 8}, 1, 1),
        ({"samples": 17, "batch": 8, "epochs": 3}, 6, 2),
        ({"samples": 17, "batch": 8, "steps": 5}, 5, 2),
        ({"samples": 17, "batch": 8, "validate_every": 7}, 2, 7),
        ({"steps": 5}, 5, 100),
    ],
)
def test_epochs_are_those_of_the_set(given: dict[str, Any], steps: int, every: int) -> None:
    found = Settings.of(Copy(5), threads=1, **given).resolved().budget
    assert (found.steps, found.validate_every, found.epochs) == (steps, every, None)


def test_a_share_for_every_process() -> None:
    """Of the smaller one of a batch and the set."""
    for given in ({"batch": 4}, {"batch": 4, "samples": 2}, {"batch": 3, "samples": 2}, {"batch": 4, "samples": 5}):
        assert Settings.of(Copy(5), processes=2, **given).machine.processes == 2
    for given in ({"batch": 3}, {"batch": 4, "samples": 3}, {"batch": 3, "samples": 9}):
        with pytest.raises(OptionError, match="multiple of processes"):
            Settings.of(Copy(5), processes=2, **given)


def test_a_data_set_may_be_tested_on_all_of_it() -> None:
    """0 is all; drawn sequences have no end."""
    whole = Settings.of(PixelMNIST(), steps=1, validate_every=1, valid_samples=0, test_samples=0, epochs=None)
    assert (whole.budget.valid_samples, whole.budget.test_samples) == (0, 0)
    found = Settings.of(PixelMNIST(), steps=1, validate_every=1, threads=1).resolved().budget
    assert (found.valid_samples, found.test_samples) == (0, 0)
    for name in ("valid_samples", "test_samples"):
        with pytest.raises(OptionError, match=f"{name} must be at least 1, got 0: only a data set has an end"):
            Settings.of(Copy(5), **{name: 0})


def test_what_is_said_goes_before_what_the_task_says() -> None:
    """And that before the default of all tasks."""

    class Own(Copy):
        defaults = {"lr": 0.25, "clip": 0.0}  # noqa: RUF012

    found = Settings.of(Own(5), "lstm", lr=0.125)
    assert (found.optimiser.lr, found.optimiser.clip, found.model.name) == (0.125, 0.0, "lstm")
    assert (Settings.of(Copy(5)).optimiser.lr, Settings.of(Copy(5)).optimiser.clip) == (2e-3, 1.0)
    assert Settings.of(Own(5)).optimiser.lr == 0.25
