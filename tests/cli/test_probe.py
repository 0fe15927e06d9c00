"""``engram probe``: a run, or any model by the name of its factory."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.cli import main
from engram.probe import PARTS
from engram.tasks import Copy
from engram.train import Settings, train

MODELS = '''
import torch
from torch import nn

size = 3

class Mine(nn.Module):
    """A user's own: batch first, a tensor only."""

    def __init__(self, hidden=4):
        super().__init__()
        self.inner = nn.GRU(3, hidden, batch_first=True)

    def forward(self, x):
        return self.inner(x)[0]

class Flat(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))

made = nn.LSTM(3, 4)

def raises():
    raise KeyError("no weights")

def words():
    return "a model"

def dropped():
    return nn.LSTM(3, 4, 2, dropout=0.5)
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a package of models, to which the command line is called."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    (tmp_path / "mypackage" / "models.py").write_text(MODELS)
    (tmp_path / "mypackage" / "broken.py").write_text("1 / 0")
    (tmp_path / "mypackage" / "needy.py").write_text("import not_there_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "mypackage"]:
        del sys.modules[name]


def test_a_factory_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "mypackage.models:Mine", "--length", "20", "--json"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert set(PARTS) <= set(found)
    assert found["name"] == "mypackage.models:Mine"
    assert len(found["gradient_reach"]["norms"]) == 20
    assert found["lyapunov"]["reason"].startswith("the state of this model cannot be handed in")
    assert re.search(
        r"cost of mypackage.models:Mine: \d+ passes over whole sequences and 0 single steps, about [\d.]+ s", said.err
    )


def test_options_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    line = "probe torch.nn:LSTM --option input_size=2 hidden_size=5 --length 12 --parts gradient_reach structure"
    assert main(line.split()) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "torch.nn:LSTM (LSTM: 2 inputs, 5 outputs, a state of 10 numbers), 12 steps"
    assert [words.split(":")[0] for words in said[1:]] == ["Verdict", "- Gradient reach", "- Structure"]


def test_a_module_that_is_made_already(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "mypackage.models:made", "--length", "12", "--parts", "structure"]) == 0


def test_dropout_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "mypackage.models:dropped", "--length", "12", "--parts", "structure"]) == 0
    assert "Note: two equal calls gave different outputs (dropout)" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "begins"), [("a/page.html", "<!DOCTYPE html>"), ("figure.svg", "<?xml")])
def test_output(name: str, begins: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = f"probe mypackage.models:Mine --length 12 --parts gradient_reach --input-size 3 -o {name}"
    assert main(line.split()) == 0
    assert (tmp_path / name).read_text().startswith(begins)
    assert name in capsys.readouterr().err


def test_several_side_by_side(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    line = "probe mypackage.models:Mine mypackage.models:made --length 12 --parts gradient_reach lyapunov"
    assert main([*line.split(), "-o", "page.html"]) == 0
    said = capsys.readouterr()
    assert re.search(r"Gradient reach +│ vanishes at \d+ +│ vanishes at \d+", said.out)
    assert re.search(r"Lyapunov +│ - +│ -[\d.]+ per step", said.out)
    assert said.err.count("cost of mypackage.models:") == 2
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg ") == 2
    assert page.count("<table>") == 1
    assert main([*line.split(), "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == line.split()[1:3]


def test_a_run_while_it_trains(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its last checkpoint is read, and the run directory is left as it is."""
    settings = Settings.of(Copy(6, 2), "exprnn", hidden=5, batch=4, steps=3, valid_samples=4, test_samples=4, threads=1)
    run = train(settings, tmp_path, "run", show=False)
    run.note(status="running")
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    assert main(["probe", "run", "--parts", "gradient_reach", "structure", "--last", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == "exprnn on copy, 3 steps trained"
    assert found["length"] == 10
    assert found["structure"]["matrices"][0]["map"] == "Exponential"
    assert {path.name: path.read_bytes() for path in run.folder.iterdir()} == before


WRONG = {
    "mypackage.modles:Mine": "there is no module 'mypackage.modles', here or installed",
    "nopackage.models:Mine": "there is no module 'nopackage', here or installed",
    "mypackage.models:droped": "there is no 'droped' in mypackage.models. Did you mean 'dropped'?",
    "mypackage.models:size": "is not a factory: it cannot be called, it is of type int",
    "mypackage.models:raises": "mypackage.models:raises raised KeyError: 'no weights'",
    "mypackage.models:words": "must make a torch.nn.Module, it made str",
    "mypackage.broken:make": "mypackage.broken cannot be imported: ZeroDivisionError",
    "mypackage.needy:make": "mypackage.needy cannot be imported: it needs not_there_at_all",
    "mypackage.models:Flat --input-size 3": "the output of the model must have rank 3, .* got rank 1",
    "mypackage.models:Flat": "Flat does not say how many inputs it reads: give --input-size",
    "mypackage.models:Mine --option hidden": "an option is NAME=VALUE",
    "mypackage.models:Mine --option width=3": "raised TypeError: .*width.* Arguments go as --option NAME=VALUE",
    "mypackage.models:Mine --input-size 4": "the model refused inputs of shape",
    "mypackage.models:Mine --input-size 0": "--input-size must be at least 1, got 0",
    "mypackage.models:Mine --length 2": "--length must be at least 8, got 2",
    "mypackage.models:Mine --parts gradient": "unknown part 'gradient': .* Did you mean 'gradient_reach'?",
    "mypackage.models:Mine -o page.pdf": "--output must end in .html, .svg or .png, got page.pdf",
    "mypackage.models:Mine mypackage.models:made -o a.svg": "a figure is of one model; several go on a page (.html)",
    "runs/nothing": "there is no run runs/nothing; a model is given as module:factory",
    ":LSTM": "a model is given as module:factory, such as torch.nn:LSTM; got ':LSTM'",
    "mypackage.models:": "a model is given as module:factory, .* got 'mypackage.models:'",
    "mypackage.models:Mine --parts": "--parts names at least one of gradient_reach",
    "mypackage": "mypackage is not a run",
    "mypackage --input-size 3": "are for module:factory; a run knows them",
    "": "engram probe needs a model: a run directory, or module:factory",
}


@pytest.mark.parametrize("words", WRONG)
def test_one_line_for_what_is_wrong(words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["probe", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"engram: [^\n]+\n", said.err)
    for part in WRONG[words].split(" .* "):
        assert all(piece in said.err for piece in part.split(".*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mypackage"]
