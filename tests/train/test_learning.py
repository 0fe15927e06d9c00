"""What the training must reach; the numbers are in docs/results/training.md."""

from pathlib import Path

import pytest

from engram.tasks import Adding, Copy, Parity, Task
from engram.train import Settings, train

LONG = {"lr": 1e-3, "lr_orthogonal": 2e-4}


def share(task: Task, model: str, folder: Path, **settings: object) -> float:
    """The test loss over the memoryless baseline."""
    run = train(Settings.of(task, model, **settings), folder, "run")  # type: ignore[arg-type]
    return float(run.facts["results"]["test"]["loss"]) / task.memoryless_baseline


@pytest.mark.slow
@pytest.mark.parametrize("model", ["exprnn", "nnrnn"])
def test_copy_with_the_usual_settings(model: str, tmp_path: Path) -> None:
    """Under 2 % of the baseline within 1000 steps."""
    assert share(Copy(200), model, tmp_path) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "rnn"])
def test_copy_is_not_easy(model: str, tmp_path: Path) -> None:
    """The networks without an orthogonal matrix are still near the baseline."""
    assert share(Copy(200), model, tmp_path) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "steps", "most"), [(1000, 1600, 0.08), (2000, 1200, 0.3)])
def test_copy_over_a_long_delay(delay: int, steps: int, most: float, tmp_path: Path) -> None:
    """Measured, one seed each: 4.0 % and below 30 % (1.6 % and 20.6 % from the initial weights of 0.1).

    Without memory it would be 100 %. Under 2 % within 1000 steps was not reached at these delays."""
    assert share(Copy(delay), "exprnn", tmp_path, steps=steps, **LONG) < most


@pytest.mark.slow
def test_adding(tmp_path: Path) -> None:
    options = {"init": "cayley", "activation": "relu"}
    assert share(Adding(200), "exprnn", tmp_path, steps=4000, lr=1e-3, options=options) < 0.03


@pytest.mark.slow
def test_parity(tmp_path: Path) -> None:
    """tanh in the recurrence, all signs of 20 steps right."""
    assert share(Parity(), "rnn", tmp_path, hidden=64, batch=128, steps=2500) < 0.01


def test_a_short_copy(tmp_path: Path) -> None:
    """A minute of the fast tier for the whole way from settings to a network that remembers."""
    assert share(Copy(20), "exprnn", tmp_path, hidden=64, steps=600) < 0.1
