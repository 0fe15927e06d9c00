"""Commands that open a run of somebody's own code: refused with a line that says what to type, and then taken."""

import json
from pathlib import Path

import pytest

from engram.cli import main
from engram.tasks import make_task
from engram.train import Settings, train

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
