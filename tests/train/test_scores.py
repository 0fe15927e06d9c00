"""Early stopping and best weights by any score, in the direction that the score has."""

from pathlib import Path
from typing import Any

import pytest

from engram.errors import OptionError
from engram.tasks import TASKS, Adding, ContractiveSystem, Copy
from engram.train import Settings, make_fabric, resume, train
from engram.train._loop import Loop
from engram.train._objective import score_names
from engram.train._scores import Score

DIRECTIONS = {
    "loss": False,
    "mse": False,
    "bits": False,
    "bpc": False,
    "accuracy": True,
    "r2": True,
    "valid_accuracy": True,
    "top-5 error": False,
    "max:loss": True,
    "min:accuracy": False,
    "max:odd": True,
    "min:odd": False,
}


@pytest.mark.parametrize("text", DIRECTIONS)
def test_directions(text: str) -> None:
    name = text.rpartition(":")[2]
    score = Score(text, ["loss", name])
    assert (score.name, score.larger) == (name, DIRECTIONS[text])
    assert score.better({name: 2.0}, {name: 1.0}) is score.larger
    assert score.better({name: 1.0}, {name: 2.0}) is not score.larger
    assert not score.better({name: 1.0}, {name: 1.0})
    assert score.better({name: 0.0}, {name: score.worst})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acuracy", "unknown score 'acuracy' to stop by: expected one of accuracy, loss, odd. Did you mean 'accuracy'"),
        ("odd", "stop_by='odd' does not tell whether larger is better: write max:odd or min:odd"),
        ("most:loss", "write max:loss or min:loss"),
        ("max:acuracy", "unknown score 'acuracy' to stop by"),
    ],
)
def test_wrong_scores(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Score(text, ["loss", "accuracy", "odd"])


@pytest.mark.usefixtures("data_sets")
@pytest.mark.parametrize("name", TASKS)
def test_every_score_of_every_task_has_a_direction(name: str) -> None:
    names = score_names(TASKS[name]())
    assert names[0] == "loss"
    assert TASKS[name].metric in names
    for each in names:
        assert isinstance(Score(each, names).larger, bool)


def test_names_are_those_of_an_evaluation() -> None:
    for task in (Copy(3, 2), Adding(5), ContractiveSystem(length=8)):
        settings = Settings.of(task, hidden=3, batch=4, valid_samples=4)
        loop = Loop(settings, make_fabric(settings))
        assert set(loop.evaluate("valid")) == set(loop.objective.score_names)


def scripted(scores: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Validations (and tests after them) give these losses and accuracies."""
    remaining = iter(scores)
    monkeypatch.setattr(Loop, "evaluate", lambda *_: dict(zip(("loss", "accuracy"), next(remaining), strict=True)))


SCORES = [(5.0, 0.1), (4.0, 0.3), (3.0, 0.2), (2.0, 0.25), (9.0, 0.9)]


@pytest.mark.parametrize(
    ("stop_by", "best", "last"), [("accuracy", 2, 4), ("loss", 4, 4), ("min:accuracy", 1, 3), ("max:loss", 1, 3)]
)
def test_the_best_is_that_of_the_score(
    stop_by: str, best: int, last: int, tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two validations without a better one end the run; four are all there are."""
    scripted(SCORES, monkeypatch)
    run = train(small(steps=4, validate_every=1, patience=2, stop_by=stop_by), tmp_path, "run")
    assert [line["step"] for line in run.metrics() if line["split"] == "valid"][-1] == last
    assert run.facts["best"]["step"] == best
    assert run.facts["best"]["accuracy"] == SCORES[best - 1][1]


@pytest.mark.parametrize(
    ("stop_by", "stop_at", "last"),
    [("accuracy", 0.3, 2), ("accuracy", 0.31, 4), ("loss", 3.5, 3), ("max:loss", 5.0, 1)],
)
def test_stops_once_the_score_is_so_good(
    stop_by: str, stop_at: float, last: int, tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted([*SCORES, *SCORES], monkeypatch)
    run = train(small(steps=4, validate_every=1, stop_by=stop_by, stop_at=stop_at), tmp_path, "run")
    assert [line["step"] for line in run.metrics() if line["split"] == "valid"][-1] == last
    assert (run.status, run.facts["step"]) == ("done", last)
    assert resume(run.folder, steps=last + 1).facts["step"] == last + 1  # asked for more, it is trained further


def test_a_plateau_is_one_of_the_score(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(SCORES, monkeypatch)
    settings = small(steps=4, validate_every=1, plateau=1, plateau_factor=0.5, lr=1.0, stop_by="accuracy")
    run = train(settings, tmp_path, "run")
    assert [line["lr"] for line in run.metrics() if line["split"] == "train"] == [1.0, 1.0, 1.0, 0.5]


def test_a_score_that_is_unknown_leaves_nothing_behind(tmp_path: Path, small: Any) -> None:
    with pytest.raises(OptionError, match="unknown score 'mse' to stop by: expected one of accuracy, loss"):
        train(small(stop_by="mse"), tmp_path, "run")
    assert not list(tmp_path.iterdir())


def test_the_best_goes_on(tmp_path: Path, small: Any) -> None:
    """Of a score that is not the loss, over a checkpoint."""
    settings = small(stop_by="accuracy")
    loop = Loop(settings, make_fabric(settings))
    loop.train_step()
    loop.validate()
    other = Loop(settings, make_fabric(settings))
    other.restore(loop.state())
    assert other.best == loop.best
    assert set(other.best) == {"step", "loss", "accuracy"}
