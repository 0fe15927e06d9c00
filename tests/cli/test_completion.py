"""``engram completion``: what the Tab key offers, and the scripts of three shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engram.cli import main
from engram.cli._app import COMMANDS
from engram.cli._complete import complete
from engram.models import MODELS
from engram.tasks import TASKS

OFFERED: dict[str, list[str]] = {
    "tra": ["train"],
    "re": ["resume"],
    "train ps": ["psmnist"],
    "train copy --model nn": ["nnrnn"],
    "train copy --model=nn": [],  # bash hands it over in three words, below
    "train copy --model = nn": ["nnrnn"],
    "train copy --hidden =": [],
    "train copy --optimizer =": ["adam", "adamw", "rmsprop", "sgd"],
    "train copy --model scornn --rh": ["--rho"],
    "train copy --del": ["--delay"],
    "train copy --lr-o": ["--lr-orthogonal"],
    "train copy --optimizer adam": ["adam", "adamw"],
    "train --hidden 8 psm": ["psmnist"],
    "train copy --model s4 ps": [],  # the task is there
    "list mo": ["models"],
    "list models exp": ["exprnn"],
    "bench lay": ["layers"],
    "completion f": ["fish"],
    "certify rac-d": ["rac-deep"],
    "certify rac-deep --mod": ["--modes"],
    "certify min-width --task par": ["parity"],
    "plot spectrum --model scu": ["scurnn"],
    "evaluate --spl": ["--split"],
    "frobnicate x": [],
    "verify a": [],
}


@pytest.mark.parametrize("line", OFFERED)
def test_offered(line: str) -> None:
    assert complete(line.split()) == OFFERED[line]


def test_everything_is_offered() -> None:
    assert {*complete([""])} == {*COMMANDS}
    assert {*complete(["train", ""])} == {*TASKS}
    assert {*complete(["train", "copy", "--model", ""])} == {*MODELS}
    assert {"--lr", "--delay", "--rebase-every", "--dry-run", "--help"} <= {*complete(["train", "copy", "--"])}
    assert "--delay" not in complete(["train", "psmnist", "--"])
    assert complete([]) == complete([""])


def test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("runs/first", "runs/second", "other"):
        Path(place).mkdir(parents=True)
        Path(place, "run.json").touch()
    Path("runs/none").mkdir()
    for command in ("resume", "evaluate", "probe", "convert flat", "plot spectrum"):
        assert complete([*command.split(), "r"]) == ["runs/first", "runs/second"]
        assert complete([*command.split(), ""]) == ["other", "runs/first", "runs/second"]


def test_in_no_time() -> None:
    """It runs at every press of a key: no torch, and not even the parser."""
    program = "import sys; from engram.cli import main; main(['--complete', 'train', '']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "copy\n" in done.stdout
    assert not {"torch", "numpy", "cyclopts", "rich"} & {*done.stdout.split()}


CHECK = {"bash": ["-n"], "zsh": ["-n"], "fish": ["--no-execute"]}


@pytest.mark.parametrize("shell", CHECK)
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each is a script that the shell itself can read, where it is installed."""
    assert main(["completion", shell]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "engram --complete" in said.out
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(said.out)
        checked = subprocess.run([program, *CHECK[shell], str(tmp_path / "script")], capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_itself(tmp_path: Path) -> None:
    """Bash runs the script and gets the words, as they must be typed: a blank is escaped, a star is no pattern."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "engram"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m engram "$@"\n')
    command.chmod(0o755)
    for name in ("a b", "*"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    test = """
eval "$(engram completion bash)"
COMP_WORDS=(engram train copy --model nn); COMP_CWORD=4; _engram; printf '[%s]' "${COMPREPLY[@]}"
COMP_WORDS=(engram resume ''); COMP_CWORD=2; _engram; printf '[%s]' "${COMPREPLY[@]}"
"""
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", test],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        timeout=120,
    )
    assert (done.stdout, done.stderr) == (r"[nnrnn][\*][a\ b]", "")
