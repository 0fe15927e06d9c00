"""Commands that open a run of somebody's own code: refused with a line that says what to type, and then taken."""

import json
from pathlib import Path

import pytest

from engram.cli import main
from engram.cli._parse import parse
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
    assert type(command.task).__name__ == "Mine"
    assert command.settings().to_dict()["task"]["name"] == f"{Path('derived.py').resolve()}:Mine"
    Path("settings.toml").write_text(to_toml(command.settings().resolved().to_dict()))
    with pytest.raises(OptionError, match=r"derived.py:Mine is code outside engram"):
        parse(["train", "--config", "settings.toml"])
    again = parse(["train", "--config", "settings.toml", "--allow", "derived.py"])
    assert again.settings().fingerprint() == command.settings().fingerprint()
