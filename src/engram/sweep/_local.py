"""The local engine: worker processes on this machine, each of which trains one job at a time."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from engram.errors import FileError
from engram.files import check_plain

Event = dict[str, Any]
"""What an engine tells: the number of a job, and progress (run, step, loss), results, failed, held, stopped or lost."""


class Engine(Protocol):
    """What the controller needs of an engine."""

    slots: int
    """How many jobs it can work on at once."""

    def submit(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        """Start a job; only called while fewer than ``slots`` are under way."""

    def events(self, seconds: float) -> list[Event]:
        """What has happened since, after waiting for it for at most so long."""

    def stop(self) -> None:
        """Ask all jobs to save and stop."""

    def close(self) -> None:
        """End whatever still runs."""


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Local:
    """``workers`` processes, started when there is work for them; one that dies is replaced.

    Each has the threads that its runs are set to; torch's own pools are kept to that number too, so that processes do
    not take each other's cores.

    Args:
        workers: how many; 0: one for every ``threads`` cores.
        threads: of each run.
        log: a file for what the processes print; default: nowhere.
    """

    def __init__(self, workers: int = 0, threads: int = 1, log: Path | None = None) -> None:
        self.slots = workers or max(1, cores() // threads)
        self.threads, self.log = threads, log
        self.workers: list[_Worker] = []
        self.heard: queue.SimpleQueue[tuple[_Worker, Event]] = queue.SimpleQueue()

    def submit(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        idle = next((worker for worker in self.workers if worker.number is None), None)
        if idle is None:
            idle = _Worker(self.heard, self.threads, self.log)
            self.workers.append(idle)
        idle.send(number, job, stale)

    def events(self, seconds: float) -> list[Event]:
        found: list[Event] = []
        try:
            worker, event = self.heard.get(timeout=seconds)
            while True:
                if "ended" in event:
                    self.workers = [each for each in self.workers if each is not worker]
                    event = {"number": worker.number, "lost": event["ended"]}
                elif "step" not in event:
                    worker.number = None
                if event["number"] is not None:
                    found.append(event)
                worker, event = self.heard.get_nowait()
        except queue.Empty:
            return found

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.hearing.join()
        self.workers = []


class _Worker:
    """A process, and the job it has."""

    def __init__(self, heard: "queue.SimpleQueue[tuple[_Worker, Event]]", threads: int, log: Path | None) -> None:
        self.number: int | None = None
        variables = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # it imports what we import
        stderr: IO[bytes] | int = subprocess.DEVNULL if log is None else open_log(log)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engram.sweep._worker"],  # -P: a file of the folder here is no module
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **variables},
            start_new_session=True,  # Ctrl-C is for the controller alone
        )
        if not isinstance(stderr, int):
            stderr.close()
        self.hearing = threading.Thread(target=self._hear, args=(heard,), daemon=True)
        self.hearing.start()

    def send(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        self.number = number
        with suppress(OSError, ValueError):  # it died: that is heard
            print(json.dumps({"number": number, "job": job, "stale": stale}), file=self.process.stdin, flush=True)

    def _hear(self, heard: "queue.SimpleQueue[tuple[_Worker, Event]]") -> None:
        with self.process:  # waits for its end, and closes the pipes
            for line in self.process.stdout or ():
                with suppress(ValueError):  # half a line: it was killed within a write
                    heard.put((self, json.loads(line)))
        heard.put((self, {"ended": self.process.returncode}))


def open_log(path: Path) -> IO[bytes]:
    """Several workers write to its end. Opening a pipe would wait for ever, and a link may lead anywhere."""
    try:
        check_plain(path)
    except FileError as error:
        raise FileError(f"{path} could not be written: {error}") from None
    return path.open("ab")
