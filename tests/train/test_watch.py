"""A run that is measured while it trains computes what it would have computed unmeasured."""

import json
from pathlib import Path

import pytest
import torch

from engram.cli import main
from engram.errors import OptionError
from engram.models import MODELS
from engram.probe import watch
from engram.tasks import Adding, Copy
from engram.train import Settings, load_network, make_network, resume, train
from tiers import MODELS_OF_EACH_KIND, slow_but

LAYERS = [name for name, entry in MODELS.items() if not entry.answers_itself]


def lines(folder: Path, split: str) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["split"] == split]


def test_watching_changes_nothing(tmp_path: Path) -> None:
    """Dropout, an orthogonal matrix, and Adam: weights and metrics bit for bit."""
    task, rest = (
        Copy(delay=5, length=3),
        {"hidden": 6, "layers": 2, "batch": 4, "steps": 7, "options": {"dropout": 0.3}},
    )
    plain = train(Settings.of(task, "exprnn", **rest), tmp_path, "plain")
    watched = train(Settings.of(task, "exprnn", probe_every=3, **rest), tmp_path, "watched", observe=watch)
    for a, b in zip(load_network(plain.folder).parameters(), load_network(watched.folder).parameters(), strict=True):
        assert torch.equal(a, b)
    assert plain.facts["results"] == watched.facts["results"]
    found = lines(watched.folder, "probe")
    assert [line["step"] for line in found] == [3, 6]
    assert all(line["drift"] < 1e-5 and abs(line["radius"] - 1) < 1e-5 for line in found)
    assert all(1 <= line["horizon"] <= task.steps for line in found)
    assert lines(plain.folder, "probe") == []


@pytest.mark.parametrize("model", slow_but(LAYERS, MODELS_OF_EACH_KIND))
@pytest.mark.parametrize("task", [Copy(delay=5, length=3), Adding(length=12)], ids=lambda task: task.name)
def test_every_model_can_be_watched(model: str, task: object) -> None:
    network = make_network(Settings.of(task, model, hidden=4))
    found = watch(network, task)
    assert 0 <= found["reach"] <= 1
    assert all(isinstance(value, float) for value in found.values())


def test_the_flag_and_going_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "train copy --model exprnn --delay 3 --length 2 --hidden 4 --batch 2 --steps 4 --probe-every 2 --name run"
    assert main([*words.split(), "--out", str(tmp_path)]) == 0
    assert [line["step"] for line in lines(tmp_path / "run", "probe")] == [2, 4]
    assert main(["resume", str(tmp_path / "run"), "--steps", "6"]) == 0
    assert [line["step"] for line in lines(tmp_path / "run", "probe")] == [2, 4, 6]
    assert main(["evaluate", str(tmp_path / "run"), "--plot"]) == 0
    capsys.readouterr()


def test_nothing_to_measure_with(tmp_path: Path) -> None:
    settings = Settings.of(Copy(delay=3, length=2), hidden=4, steps=2, probe_every=1)
    with pytest.raises(OptionError, match=r"observe=engram\.probe\.watch"):
        train(settings, tmp_path, "run")
    run = train(settings, tmp_path, "again", observe=watch)
    with pytest.raises(OptionError, match="observe"):
        resume(run.folder, steps=4)
