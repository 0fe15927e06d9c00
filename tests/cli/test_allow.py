"""Commands that open a run of somebody's own code: refused with a line that says what to type, and then taken."""

import json
from pathlib import Path

import pytest

from engram.cli import main
from engram.cli._app import parse
from engram.errors import OptionError
from engram.tasks import make_task
from engram.train import Settings, to_toml, train

TASK = """
from dataclasses import dataclass
from engram.tasks import Copy

@dataclass(frozen=True)
class Longer(Copy):
    delay: int = 5
    length: int = 3
"""
MODEL = "import engram.nn\nclass Mine(engram.nn.RNN): pass\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mytask.py").write_text(TASK)
    Path("mymodel.py").write_text(MODEL)
    settings = Settings.of(
        make_task("mytask.py:Longer"), "mymodel.py:Mine", hidden=6, batch=4, steps=2, valid_samples=8, test_samples=8
    )
    return train(settings, "runs", "first").folder


COMMANDS = {
    "evaluate": ["evaluate", "runs/first", "--json"],
    "probe": ["probe", "runs/first", "--json", "--parts", "gradient_reach", "-o", "page.html"],
    "torch": ["convert", "torch", "runs/first", "-o", "rnn.safetensors", "--json"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_allow(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = COMMANDS[command]
    for allow in ([], ["--allow", "mytask.py"], ["--allow", "mypackage", "--allow", "mymodel.py"]):
        assert main([*words, *allow]) in (1, 2)
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "is code outside engram" in told
        assert "--allow " in told
    assert main([*words, "--allow", "mytask.py", "--allow", str(Path("mymodel.py").resolve())]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["", 'name = "copy"'])
def test_a_task_derived_from_one_of_ours(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is itself, whatever it is called; and a settings file of it needs --allow."""
    monkeypatch.chdir(tmp_path)
    head = "from dataclasses import dataclass\nfrom engram.tasks import Copy\n\n\n@dataclass(frozen=True)\n"
    Path("derived.py").write_text(f'{head}class Mine(Copy):\n    """Mine."""\n\n    {name or "source = str()"}\n')
    words = [
        "train",
        "--hidden",
        "4",
        "derived.py:Mine",
        "--delay",
        "2",
        "--length",
        "2",
        "--steps",
        "1",
        "--batch",
        "2",
    ]
    command = parse(words)
    assert type(command.settings.task).__name__ == "Mine"
    assert command.settings.to_dict()["task"]["name"] == f"{Path('derived.py').resolve()}:Mine"
    Path("settings.toml").write_text(to_toml(command.settings.resolved().to_dict()))
    with pytest.raises(OptionError, match=r"derived.py:Mine is code outside engram"):
        parse(["train", "--config", "settings.toml"])
    again = parse(["train", "--config", "settings.toml", "--allow", "derived.py"])
    assert again.settings.fingerprint() == command.settings.fingerprint()


OWN = """
from dataclasses import dataclass
import torch
from engram.tasks import Copy


@dataclass(frozen=True)
class Needs(Copy):
    must: int
    length: int = 2


@dataclass(frozen=True)
class Clashes(Copy):
    batch: int = 3


class Model(torch.nn.Module):
    def __init__(self, input_size, hidden_size, reach: int, scale, sizes=(1, 2), other: int | None = 3):
        super().__init__()
        self.options = reach, scale, sizes, other
        self.linear = torch.nn.Linear(input_size, hidden_size)

    def forward(self, x):
        return self.linear(x)
"""


def test_options_that_must_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        OWN.replace("must: int", "must: int = field(kw_only=True)").replace(
            "import dataclass", "import dataclass, field"
        )
    )
    words = ["train", "own.py:Needs", "--model", "own.py:Model", "--hidden", "4", "--steps", "1"]
    given = ["--must", "3", "--reach", "4", "--scale", "2.5", "--other", "None"]
    settings = parse([*words, *given]).settings
    assert settings.task.options()["must"] == 3
    assert settings.model.options == {"reach": 4, "scale": 2.5, "other": None}
    for missing in ("--must", "--reach", "--scale"):
        place = given.index(missing)
        with pytest.raises(OptionError, match=missing):
            parse([*words, *given[:place], *given[place + 2 :]])
    with pytest.raises(OptionError, match="the task has the option batch, and so has every run"):
        parse(["train", "own.py:Clashes"])
    with pytest.raises(OptionError, match=r"a task in a file is named with its class, own.py:MyTask"):
        parse(["train", "own.py"])
    with pytest.raises(OptionError, match=r"a model in a file is named with its class, own.py:MyModel"):
        parse(["train", "copy", "--model", "own.py"])
    # a file of all this, with the code named as typed: its options stay, and what was typed needs no --allow
    Path("settings.toml").write_text(to_toml(settings.resolved().to_dict()))
    again = parse(["train", "own.py:Needs", "--model", "own.py:Model", "--config", "settings.toml"]).settings
    assert again.fingerprint() == settings.fingerprint()


def test_a_word_with_a_colon_is_not_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("max.py").write_text("raise SystemExit('imported')")
    assert parse(["train", "--stop-by", "max:accuracy", "copy"]).settings.budget.stop_by == "max:accuracy"


def test_code_that_was_changed_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mymodel.py").write_text(f"{MODEL}# changed\n")
    assert main(["resume", "runs/first", "--steps", "3", "--allow", "mytask.py", "--allow", "mymodel.py"]) == 0
    assert "warning: not the machine or versions of the start (code of Mine" in capsys.readouterr().err


def test_what_to_type_next_can_be_typed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        "mytask.py:Longer",
        "--model",
        "mymodel.py:Mine",
        "--hidden",
        "4",
        "--steps",
        "1",
        "--name",
        "second",
    ]
    assert main([*words, "--batch", "2", "--valid-samples", "2", "--test-samples", "2"]) == 0
    told = capsys.readouterr()
    said = next(line for line in (told.out + told.err).splitlines() if line.startswith("run: "))
    command = said.partition("(engram ")[2].partition(" --plot")[0].split()
    assert main(command) == 0
