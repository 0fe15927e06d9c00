"""``engram sweep`` and ``engram train --seeds``, as a person types them, mistakes included."""

import json
import tomllib
from pathlib import Path

import pytest

from engram.cli import main
from engram.sweep import SweepFile, make_plan, read_sweep

TINY = """
seeds = 2
[base]
task = "copy"
delay = 3
length = 2
steps = 4
batch = 4
hidden = 4
validate_every = 2
valid_samples = 4
test_samples = 4
[grid]
model = ["rnn", "exprnn"]
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    return "tiny.toml"


def test_example_is_a_sweep_that_can_be_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sweep", "--example"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["seeds"] == 3
    path = tmp_path / "example.toml"
    path.write_text(text)
    assert len(make_plan(read_sweep(path)).runs) == 9
    for line in ("[[list]]", "[ladder]"):  # what is commented out can be taken in
        assert f"# {line}" in text
    taken = text.index("# [ladder]")
    path.write_text(text[:taken] + text[taken:].replace("# ", "", 1).replace("\n# ", "\n"))
    file = read_sweep(path)
    assert isinstance(file, SweepFile)
    assert file.ladder is not None


def test_whole_way(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", tiny, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "tiny: 4 runs in sweeps/tiny, 0 of them done" in said.out
    assert not Path("sweeps").exists()
    assert main(["sweep", "status", tiny]) == 0
    assert "4 runs: 4 missing" in capsys.readouterr().out

    assert main(["sweep", tiny, "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split() == ["model", "runs", "done", "test_loss", "test_accuracy"]
    assert said.err.count("done: model") == 4
    assert main(["sweep", "status", tiny, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["done"]) == (4, 4)
    assert main(["sweep", "status", tiny, "--format", "csv"]) == 0
    assert capsys.readouterr().out == f"sweep,out,runs,done\ntiny,{Path('sweeps/tiny')},4,4\n"

    assert main(["sweep", "table", tiny, "--json"]) == 0
    assert [row["model"] for row in json.loads(capsys.readouterr().out)] == ["rnn", "exprnn"]
    assert main(["sweep", "table", tiny, "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("| model | runs | done |")
    for name in ("csv", "json", "markdown", "latex"):
        assert main(["sweep", "export", tiny, "--format", name, "-o", f"tables/all.{name}"]) == 0
        assert "exprnn" in Path(f"tables/all.{name}").read_text()
    assert main(["sweep", "export", tiny, "--format", "csv"]) == 0
    assert capsys.readouterr().out == Path("tables/all.csv").read_text()
    assert main(["sweep", "export", tiny, "--over-seeds"]) == 0
    assert [line.split(",")[:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["rnn", "2", "2"], ["exprnn", "2", "2"],
    ]  # fmt: skip

    assert main(["sweep", tiny]) == 0  # again: nothing is left to do
    assert "[" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_ladder_that_has_ended_has_nothing_left(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    ladder = "[ladder]\nover = 'delay'\nvalues = [3, 4, 5]\nsolved = 'loss<0'\n"
    Path(tiny).write_text(TINY + ladder)
    assert main(["sweep", tiny, "--dry-run"]) == 0
    assert "what is left takes about at most" in capsys.readouterr().out
    assert main(["sweep", tiny, "--workers", "1"]) == 0
    assert capsys.readouterr().err.count("done: model") == 4
    assert main(["sweep", tiny, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "tiny: 12 runs in sweeps/tiny, 4 of them done, 8 not needed" in said
    assert "what is left" not in said
    assert main(["sweep", tiny]) == 0
    assert capsys.readouterr().err == ""  # nothing is measured, and nothing trained


def test_seeds_of_train_are_a_sweep(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "copy", "--model", "rnn", "--hidden", "4", "--delay", "3", "--length", "2", "--steps", "4"]
    words += ["--batch", "4", "--valid-samples", "4", "--test-samples", "4", "--seeds", "2", "--seed", "5", "--json"]
    assert main([*words, "--dry-run"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
    assert not Path("runs").exists()
    assert main(words) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert (row["runs"], row["done"]) == (2, 2)
    (out,) = Path("runs").iterdir()
    seeds = [json.loads(path.read_text())["seed"] for path in out.glob("*/run.json")]
    assert sorted(seeds) == [5, 6]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == [row]
    assert len(list(Path("runs").iterdir())) == 1


MISTAKES = [
    (["sweep"], "engram sweep needs FILE, a sweep file. engram sweep --example prints one"),
    (["sweep", "none.toml"], "none.toml: No such file or directory. engram sweep --example prints a sweep file"),
    (["sweep", "tiny.toml", "--workers", "0"], "--workers must be at least 1, got 0"),
    (["sweep", "tiny.toml", "--engine", "slurm"], "local"),
    (["sweep", "tiny.toml", "--wrokers", "2"], "--workers"),
    (["sweep", "table"], "engram sweep needs FILE"),
    (["sweep", "export", "tiny.toml", "--format", "xls"], "csv"),
    (["sweep", "export", "tiny.toml", "-o", "."], "could not be written"),
    (["sweep", "bad.toml"], "bad.toml: line 2: unknown name 'gird' in a sweep file: expected one of"),
    (["sweep", "tiny.toml", "--out", "tiny.toml"], "--out tiny.toml is a file: give a folder"),
    (["sweep", "status", "tiny.toml", "--out", "tiny.toml"], "--out tiny.toml is a file: give a folder"),
    (["sweep", "stauts", "tiny.toml"], "unknown command 'stauts': expected one of export, status"),
    (["train", "copy", "--seeds", "0"], "--seeds must be at least 1, got 0"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_mistakes_are_told_in_one_line(
    tiny: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.toml").write_text("seeds = 1\n[gird]\nlr = [1.0]\n")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_failed_runs_are_named_at_the_end(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = make_plan(read_sweep(Path(tiny)))
    out = Path("sweeps/tiny")
    out.mkdir(parents=True)
    (out / plan.runs[0].folder).write_text("in the way")
    assert main(["sweep", tiny, "--workers", "1"]) == 1
    error = capsys.readouterr().err
    assert "1 of 4 runs failed" in error
    assert "The same command tries them again" in error


def test_code_of_a_sweep_file_must_be_allowed(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("raise SystemExit('imported')\n")
    Path("own.toml").write_text('[base]\ntask = "copy"\nmodel = "mine.py:Mine"\n')
    assert main(["sweep", "own.toml", "--dry-run"]) == 2
    assert "--allow" in capsys.readouterr().err
