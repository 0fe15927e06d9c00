"""``engram runs`` and ``engram compare``: what people type, and what they are told."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from engram.cli import main
from engram.cli._complete import complete
from made_runs import make_run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs: three of copy, one of a sweep that was killed, one that is damaged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / "cache"))
    for k, hidden in enumerate((32, 64, 128)):
        make_run(Path(f"runs/r{hidden}"), hidden=hidden, seed=k, accuracy=0.3 + 0.1 * k)
    make_run(Path("runs/delays/copy-lstm-01"), model="lstm", status="running", results=..., seconds=...)
    make_run(Path("runs/damaged"))
    Path("runs/damaged/run.json").write_text("{")
    return tmp_path


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_list(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert {*names(out)} == {"runs/r32", "runs/r64", "runs/r128", "runs/delays/copy-lstm-01", "runs/damaged"}
    line = next(line for line in out.splitlines() if line.startswith("runs/r64"))
    assert line.split()[:7] == ["runs/r64", "copy", "exprnn", "64", "1", "done", "accuracy"]
    assert "0.4 (chance 0.125)" in line
    assert "449  12 s" in line
    assert "damaged: it is not JSON" in out
    assert "accuracy 0.75 valid (chance 0.125)" in out
    assert err == "5 runs in runs: 1 killed, 3 done, 1 damaged\n"


def test_where_sort_limit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--where", "task=copy and hidden>32", "--sort", "-score", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert names(out) == ["runs/r128"]
    assert err == "2 runs in runs for which that holds: 2 done; shown: 1\n"
    assert main(["runs", "--sort", "hidden", "--where", "status=done"]) == 0
    assert names(capsys.readouterr().out) == ["runs/r32", "runs/r64", "runs/r128"]
    assert main(["runs", "--where", "status=stopped"]) == 0
    assert capsys.readouterr() == ("", "0 runs in runs for which that holds\n")


def test_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", "--sort", "-hidden", "--where", "status=done"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert err == ""
    assert [row["run"] for row in rows] == ["runs/r128", "runs/r64", "runs/r32"]
    assert rows[0]["delay"] == 5
    assert rows[0]["test_accuracy"] == rows[0]["score"] == 0.5
    assert rows[0]["age"] >= 0


WRONG = {
    "runs --where hiden>3": "unknown name 'hiden' in the condition 'hiden>3': expected one of",
    "runs --sort scoer": "Did you mean 'score'?",
    "runs --limit 0": "--limit must be at least 1, got 0",
    "runs --limit x": "--limit must be a whole number, got 'x'",
    "runs remvoe": "unknown action 'remvoe': expected one of archive, remove, rename. Did you mean 'remove'?",
    "runs --where task": "expected one of = != < <= > >=, got its end",
    "evaluate --run runs/r32": "write it without --run: engram evaluate runs/r32",
    "runs --otu x": "unknown option --otu of engram runs. Did you mean --out?",
    "runs --out runs/r32/run.json": "is not a folder: --out is the folder that has the runs in it",
    "runs --out runs/r32": "runs/r32 is a run itself: --out is the folder that has the runs in it",
    "runs remove": "engram runs remove needs RUN, a run directory, or --where",
    "runs remove runs/r32 --where task=copy": "takes runs or --where, not both",
    "runs remove runs/r33": "runs/r33 is not a run: there is no such folder. Did you mean runs/r32?",
    "runs remove --where hidden>1000": "there is no run in runs for which 'hidden>1000' holds",
    "runs remove runs/r32": "asks before it deletes, and there is no terminal to answer: add --yes",
    "runs archive runs/r32": "asks before it deletes, and there is no terminal to answer: add --yes",
    "runs rename runs/r32": "engram runs rename needs NAME",
    "runs rename runs/r32 ../x": "a name is that of one folder",
    "runs rename runs/r32 r64": "runs/r64 is there already",
    "compare": "engram compare needs RUN, a run directory, or --where",
    "compare runs/r32 -o x.pdf": "--output must end in one of .svg, .png, .html, .csv, .json, got x.pdf",
    "compare runs/damaged": "runs/damaged cannot be compared: it is not JSON",
}


@pytest.mark.parametrize("words", WRONG)
def test_one_line_says_what_is_wrong(words: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(map(str, Path("runs").rglob("*")))
    assert main(words.split()) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("engram: ")
    assert WRONG[words] in err
    assert [path for path in sorted(map(str, Path("runs").rglob("*"))) if ".index" not in path] == before


def test_an_empty_folder_says_how_to_make_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--out", str(tmp_path)]) == 0
    assert f"no runs in {tmp_path}. To make a run: engram train" in capsys.readouterr().err
    assert main(["runs", "--out", str(tmp_path / "none")]) == 0
    assert "no folder" in capsys.readouterr().err
    assert main(["runs", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_remove(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs/r32/notes.txt").write_text("mine")
    assert main(["runs", "remove", "runs/r32", "runs/r64", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert out == "removed runs/r32\nremoved runs/r64\n"
    assert "There is 1 file that engram did not make: runs/r32/notes.txt" in err
    assert not Path("runs/r32").exists()
    assert main(["runs", "remove", "--where", "hidden=128 or status=killed", "--yes", "--json"]) == 0
    assert {*json.loads(capsys.readouterr().out)["removed"]} == {"runs/r128", "runs/delays/copy-lstm-01"}
    assert {path.name for path in Path("runs").iterdir()} == {"damaged", "delays", ".index.sqlite"}


def test_one_that_is_named_twice_is_removed_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "remove", "runs/r32", "runs/r32/", "--yes"]) == 0
    assert capsys.readouterr().out == "removed runs/r32\n"


def test_one_that_is_in_use_keeps_all(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All are looked at before the first is deleted."""
    with FileLock("runs/r64/lock"):
        assert main(["runs", "remove", "runs/r32", "runs/r64", "--yes"]) == 2
    assert "runs/r64 is in use" in capsys.readouterr().err
    assert Path("runs/r32").is_dir()


def answer(words: list[str], typed: bytes) -> str:
    """Run a command on a terminal and type an answer; what it wrote."""
    leader, terminal = pty.openpty()
    program = "import sys; from engram.cli import main; raise SystemExit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(leader, 4096)
    os.write(leader, typed)
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:  # the terminal is gone with the process
        pass
    assert process.wait(60) == 0
    os.close(leader)
    return seen.decode()


@pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")
def test_it_asks_first(here: Path) -> None:
    Path("runs/r32/notes.txt").write_text("mine")
    said = answer(["runs", "remove", "runs/r32", "runs/r64"], b"\n")
    assert "Remove 2 runs and 1 other file, 0.0 MB?" in said
    assert "nothing was removed" in said
    assert Path("runs/r32").is_dir()
    assert "removed runs/r32" in answer(["runs", "remove", "runs/r32"], b"yes\n")
    assert not Path("runs/r32").exists()


def test_rename_and_archive(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "rename", "runs/r32", "small"]) == 0
    assert capsys.readouterr().out == "run: runs/small\n"
    assert main(["runs", "archive", "runs/small", "runs/r64", "--yes"]) == 0
    assert capsys.readouterr().out == "archive: runs/small.tar.gz\narchive: runs/r64.tar.gz\n"
    assert not Path("runs/small").exists()
    subprocess.run(["tar", "xf", "small.tar.gz"], cwd="runs", check=True, timeout=60)
    assert main(["runs", "--where", "hidden<128 and status=done"]) == 0
    assert names(capsys.readouterr().out) == ["runs/small"]


def test_compare(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/again"), hidden=64, seed=7, accuracy=0.6)
    Path("runs/r32.tar.gz").touch()  # runs/* has archives too, and that of a search its log
    Path("runs/optuna.log").touch()
    assert main(["compare", "runs/r32", "runs/r64", "runs/again", "runs/r32.tar.gz", "runs/optuna.log"]) == 0
    out, err = capsys.readouterr()
    assert "accuracy" in out.splitlines()[0]
    assert out.splitlines()[1].split()[:6] == ["1", "2", "copy", "64", "0.5", "±"]
    assert out.splitlines()[2].split()[:5] == ["2", "1", "copy", "32", "0.3"]
    assert err == ""
    assert main(["compare", "runs/r64", "runs/again"]) == 0
    assert "differ in the seed only" in capsys.readouterr().err
    assert main(["compare", "--where", "status=done", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 3


def test_compare_says_that_tasks_differ(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/other"), task="adding", metric="mse")
    assert main(["compare", "runs/r32", "runs/other"]) == 0
    assert capsys.readouterr().err == "Runs of 2 tasks: their losses and scores measure different things.\n"


@pytest.mark.parametrize("ending", ["html", "csv", "json", "svg"])
def test_compare_writes(ending: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "runs/r32", "runs/r64", "-o", f"new/compared.{ending}"]) == 0
    assert f"new/compared.{ending}" in capsys.readouterr().err
    text = Path(f"new/compared.{ending}").read_text()
    assert {"html": "</html>", "csv": "test_accuracy", "json": '"groups"', "svg": "</svg>"}[ending] in text
    before = {*Path("runs").rglob("*")}
    assert main(["compare", "runs/r32", "runs/r64"]) == 0
    assert {*Path("runs").rglob("*")} == before  # nothing is written unless asked


def test_completion(here: Path) -> None:
    assert complete(["runs", ""]) == ["archive", "remove", "rename"]
    assert complete(["runs", "--wh"]) == ["--where"]
    assert complete(["runs", "remove", "--ye"]) == ["--yes"]
    for words in (["compare"], ["runs", "remove"], ["runs", "archive"], ["runs", "rename"]):
        assert complete([*words, "runs/r1"]) == ["runs/r128"]
    assert complete(["compare", "runs/delays/"]) == ["runs/delays/copy-lstm-01"]


def test_strange_names_stay_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs") / os.fsdecode(b"\x1b[31m\n\xff[red]x"))
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 7
    assert "\x1b" not in out + err
    assert "[red]x" in out


def test_a_list_needs_no_torch(here: Path) -> None:
    program = (
        "import sys; from engram.cli import main; main(['runs']); main(['compare', 'runs/r32']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "runs/r128" in done.stdout
    assert not {"torch", "numpy", "matplotlib"} & {*done.stdout.split()}
