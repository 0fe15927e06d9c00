"""``engram convert unitary``: a saved run becomes an orthogonal one with the same results."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engram.cli import main
from engram.tasks import ContractiveSystem
from engram.train import RunDirectory, Settings, evaluate, train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of no steps: their weights are as drawn."""
    out = tmp_path_factory.mktemp("runs")
    task = ContractiveSystem(length=30, epsilon=0.1)
    given: dict[str, Any] = {"batch": 8, "steps": 0, "test_samples": 16, "threads": 1}
    options = {"activation": "relu", "map": "spectral-margin"}
    train(Settings.of(task, "rnn", hidden=3, layers=2, options=options, seed=3, **given), out, "wide")
    train(Settings.of(task, "lstm", hidden=3, **given), out, "lstm")
    return out


def convert(*words: object) -> int:
    return main(["convert", "unitary", *map(str, words)])


def test_command(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs / "twin"
    assert convert(runs / "wide", "-o", out, "--contract", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["difference"]["data"] < 1e-4
    assert report["run"] == str(out)
    assert RunDirectory(out).facts["conversion"]["states_used"] == report["states_used"] <= 6
    before, after = evaluate(runs / "wide")["test"], evaluate(out)["test"]
    assert after["r2"] == pytest.approx(before["r2"], rel=1e-4)
    assert report["results"]["after"]["test"] == after
    assert convert(runs / "wide", "-o", out) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_command_in_words(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(runs / "wide", "-o", runs / "words", "--input-bound", "20", "--contract") == 0
    words = capsys.readouterr().out
    assert "norm up to 20" in words
    assert "test after:" in words
    assert "largest difference" in words


def test_command_without_an_output(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new run stands beside the old one, under its name."""
    assert convert(runs / "wide", "--input-bound", "auto", "--contract") == 0
    assert f"run: {runs / 'wide-orthogonal'} " in capsys.readouterr().out
    assert RunDirectory(runs / "wide-orthogonal").facts["conversion"]["states_used"] <= 6


def test_command_refuses(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        ((runs / "lstm",), "has model lstm"),
        ((runs / "wide", "--input-bound", "big"), "auto or a number, got 'big'"),
    ):
        assert convert(*words, "-o", runs / "no") == 2
        assert re.search(told, capsys.readouterr().err)
    assert not (runs / "no").exists()
