"""The command line as a process of its own: exit codes, streams, Ctrl-C."""

import os
import signal
import subprocess
import sys

import pytest

import engram

# Ctrl-C reaches Python even where the caller ignores it (a background job of a shell).
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from engram.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "engram.cli", *words], capture_output=True, text=True, timeout=120)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"engram {engram.__version__}\n", "")


def test_refused() -> None:
    done = run("demo", "--delay", "0")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "engram: --delay must be at least 1, got 0\n")


def test_unknown_command() -> None:
    done = run("frobnicate")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_debug() -> None:
    done = run("demo", "--delay", "0", "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("engram.errors.OptionError: --delay must be at least 1, got 0\n")


def test_demo() -> None:
    done = run("demo", "--updates", "2", "--delay", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "does not remember" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c() -> None:
    """While training: exit code 130, one word, no traceback."""
    words = ["demo", "--updates", "100000", "--delay", "5"]
    command = [sys.executable, "-c", PROGRAM, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Copying problem" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "\ninterrupted\n"
    assert "Traceback" not in out
