"""The command line as a process of its own: exit codes, streams, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import engram
from prepared import Prepared
from tiers import slow

# Ctrl-C reaches Python even where the caller ignores it (a background job of a shell).
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from engram.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engram.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | variables)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"engram {engram.__version__}\n", "")


def test_refused(prepared: Prepared) -> None:
    done = prepared.run(PROGRAM, "demo", "--delay", "0")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "engram: --delay must be at least 1, got 0\n")


def test_wrong_words_without_frames() -> None:
    """One line, where frames cannot be drawn too."""
    done = run("train", "copy", "--hiden", "8", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"engram: [^\n]*Did you mean --hidden\?\n", done.stderr)


def test_debug(prepared: Prepared) -> None:
    done = prepared.run(PROGRAM, "demo", "--delay", "0", "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("engram.errors.OptionError: --delay must be at least 1, got 0\n")


def test_demo(prepared: Prepared) -> None:
    done = prepared.run(PROGRAM, "demo", "--updates", "2", "--delay", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "does not remember" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c(prepared: Prepared) -> None:
    """While training: exit code 130, one word, no traceback."""
    process = prepared.start(PROGRAM, "demo", "--updates", "100000", "--delay", "5")
    process.wait_for("Copying problem")
    process.signal(signal.SIGINT)
    done = process.wait()
    assert done.returncode == 130
    assert done.stderr == "\ninterrupted\n"
    assert "Traceback" not in done.stdout


def test_the_command_is_there_before_torch() -> None:
    """What Ctrl-C meets in the first second is our code, not an import that nobody guards."""
    told = "import sys, engram.cli; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False False\n"


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("wait", [0.05, 0.2, 0.6])  # at 0 it may come before main is called
def test_ctrl_c_while_everything_is_imported(wait: float) -> None:
    program = PROGRAM.replace("sys.exit", "print(flush=True); sys.exit")
    command = [sys.executable, "-c", program, "demo", "--updates", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "\ninterrupted\n")


TRAIN = ["train", "copy", "--hidden", "8", "--delay", "3", "--batch", "4", "--name", "first"]


def test_train_in_streams_of_its_own(tmp_path: Path, prepared: Prepared) -> None:
    """The result on standard output, the progress on standard error."""
    done = prepared.run(PROGRAM, *TRAIN, "--steps", "2", "--json", "--out", str(tmp_path))
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "done"
    assert "step 2 test: loss" in done.stderr


def test_a_loss_that_is_not_finite(tmp_path: Path, prepared: Prepared) -> None:
    """Exit code 1: the run was understood, and failed."""
    words = ["--steps", "9", "--optimizer", "sgd", "--lr", "1e30", "--clip", "0", "--out", str(tmp_path)]
    done = prepared.run(PROGRAM, *TRAIN, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"^engram: the loss is (nan|inf) at step \d+\. .*smaller --lr", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr
    facts = json.loads((tmp_path / "first" / "run.json").read_text())
    assert facts["status"] == "failed"
    assert "the loss is" in facts["reason"]


@pytest.mark.slow  # tests/train has the same in one process
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_while_training_and_resume(tmp_path: Path) -> None:
    """Exit code 130, how to go on, and going on."""
    words = [*TRAIN, "--steps", "1000000", "--log-every", "1", "--out", str(tmp_path)]
    folder = tmp_path / "first"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 600
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert f"Resume with: engram resume {folder}\n" in err
    assert err.endswith("\ninterrupted\n")
    assert "Traceback" not in err
    facts = json.loads((folder / "run.json").read_text())
    assert facts["status"] == "stopped"
    steps = facts["step"] + 3
    done = run("resume", str(folder), "--steps", str(steps), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == steps
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["split"] == "train"] == list(range(1, steps + 1))


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("words", [["list", "tasks"], ["list", "models", "--json"]])
def test_a_reader_that_leaves(words: list[str]) -> None:
    """``engram list tasks | head -1``: the pipe is closed before anything is written."""
    there, here = os.pipe()
    os.close(there)
    try:
        command = [sys.executable, "-m", "engram.cli", *words]
        done = subprocess.run(command, stdout=here, stderr=subprocess.PIPE, text=True, timeout=600)
    finally:
        os.close(here)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_python_m_engram() -> None:
    told = subprocess.run([sys.executable, "-m", "engram", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("engram ")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize("words", ["list models", "--help", "--version", "--complete tr", slow("size --lag 9")])
def test_closed_streams(words: str) -> None:
    """``engram list models >&-``, or a service without an output: what is printed is lost, and nothing fails."""
    command = f"exec {sys.executable} -m engram.cli {words} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="names of POSIX")
def test_characters_that_the_output_does_not_have(tmp_path: Path) -> None:
    """The Tab key and figures, with an output in ASCII and with a name that is not UTF-8."""
    for name in ("ü", os.fsdecode(b"\xff")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    command = [sys.executable, "-m", "engram.cli", "--complete", "resume", ""]
    for encoding, said in (("ascii", "\\xfc\n\\udcff\n"), ("utf-8", "ü\n\\udcff\n")):
        variables = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, timeout=600, env=variables, cwd=tmp_path, check=True)
        assert done.stdout.decode() == said
