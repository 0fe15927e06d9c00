"""The command line: help, version, and errors of one line. Run in this process, where it is fast."""

import re
from importlib import metadata
from pathlib import Path

import pytest

import engram
from engram.cli import main
from engram.cli._list import List
from engram.errors import EngramError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"engram {engram.__version__}\n"


OPTIONS = {
    "demo": ["--delay", "--updates", "--seed"],
    "bench": ["layers", "cells", "--quick", "--json", "--repeats", "--against", "--only", "--markdown", "--figure"],
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert all(option in out for option in OPTIONS[command])
    assert f"Example: engram {command}" in re.sub(r"\s+", " ", out)


REFUSED = {
    "a name in place of a kind": (["list", "nnrnn"], "nnrnn is one of the models: write engram list models nnrnn"),
    "delay": (["demo", "--delay", "0"], "--delay must be at least 1, got 0"),
    "updates": (["demo", "--updates", "-5"], "--updates must be at least 1, got -5"),
    "repeats": (["bench", "--repeats", "0"], "--repeats must be at least 1, got 0"),
    "figure": (["bench", "layers", "--figure", "a.pdf"], "--figure must end in .svg or .png, got a.pdf"),
    "figure of the demo": (["demo", "--figure", "a.jpeg"], "--figure must end in .svg or .png, got a.jpeg"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, message = REFUSED[case]
    assert main(words) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"engram: {message}\n")


@pytest.mark.parametrize("case", REFUSED)
def test_debug_raises(case: str) -> None:
    """``--debug``, anywhere among the words, lets the exception through."""
    words, message = REFUSED[case]
    for where in (0, len(words)):
        with pytest.raises(EngramError, match=re.escape(message)):
            main([*words[:where], "--debug", *words[where:]])


def test_errors_of_the_system(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that was asked for and the reason; not the name that it has while it is written."""
    for name in ("x.svg", "x.svg.733f38a2292df582.new"):

        def run(*_: object, name: str = name) -> None:
            raise PermissionError(13, "Permission denied", f"pictures/{name}")

        monkeypatch.setattr(List, "run", run)
        assert main(["list"]) == 2
        assert capsys.readouterr().err == "engram: pictures/x.svg: Permission denied\n"


def test_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file stands where the folder should be: one line, after the results."""
    (tmp_path / "taken").write_text("")
    assert main(["demo", "--updates", "1", "--delay", "1", "--figure", str(tmp_path / "taken" / "a.svg")]) == 2
    told = capsys.readouterr()
    assert "of the symbols of 1000 new sequences recalled" in re.sub(r"\s+", " ", told.out)
    assert re.fullmatch(r"engram: .*taken.*\n", told.err)


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def press(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.cli._demo.Demo.run", press)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_the_script_is_main() -> None:
    (script,) = [entry for entry in metadata.entry_points(group="console_scripts") if entry.name == "engram"]
    assert script.load() is main
