"""Programs in processes of their own that need not import torch and engram again: forks of one that has.

Not multiprocessing's fork server: a program here has its own streams, words, folder and variables, as one that is
started from a shell, and nothing of pytest is imported into it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SERVER = """
import json, os, signal, sys, traceback
import lightning_fabric, torch
import engram.certify, engram.cli._app, engram.train

def run(task):
    signal.alarm(600)
    for stream, name in enumerate((os.devnull, *task["streams"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), stream)
    sys.argv = ["-c", *task["words"]]
    os.chdir(task["folder"])
    os.environ.clear()
    os.environ.update(task["variables"])
    code = 0
    try:
        exec(task["program"], {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

torch.set_num_threads(1)
for line in sys.stdin:
    task = json.loads(line)
    if isinstance(task, int):
        answer = os.waitstatus_to_exitcode(os.waitpid(task, 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            run(task)
    print(answer, flush=True)
"""


class Process:
    """A program that runs."""

    def __init__(self, server: "Prepared", pid: int, out: Path, err: Path) -> None:
        self._server, self.pid, self._out, self._err = server, pid, out, err

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_for(self, words: str) -> None:
        """Until it has written them to standard output."""
        end = time.monotonic() + 600
        while words not in self._out.read_text():
            assert time.monotonic() < end
            time.sleep(0.01)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Its exit code and what it wrote, once it has ended."""
        code = self._server.ask(self.pid)
        return subprocess.CompletedProcess([], code, self._out.read_text(), self._err.read_text())


class Prepared:
    """Starts programs; it is itself started with the first of them."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._started = 0

    def ask(self, task: Any) -> int:
        """What the server answers: to a task the number of its process, to that number the exit code."""
        if self._server is None:
            command, pipe = [sys.executable, "-W", "ignore", "-c", SERVER], subprocess.PIPE
            self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(task), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())

    def start(self, program: str, *words: str, **variables: str) -> Process:
        """A process that runs the program with these words, and these variables beside those of this process."""
        self._started += 1
        out, err = (Path(self._folder.name) / f"{self._started}.{name}" for name in ("out", "err"))
        out.touch()  # it is read as soon as this returns, which may be before the process opens it
        task = {"program": program, "words": words, "streams": [str(out), str(err)], "folder": str(Path.cwd())}
        return Process(self, self.ask(task | {"variables": environment() | variables}), out, err)

    def run(self, program: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same, waited for."""
        return self.start(program, *words, **variables).wait()

    def end(self) -> None:
        self._folder.cleanup()
        if self._server is not None:
            self._server.kill()
            self._server.communicate()


def environment() -> dict[str, str]:
    """Variables of a process that may have as many threads as it asks torch for."""
    return {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
