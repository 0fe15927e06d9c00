"""A worker of the local engine: ``python -m engram.sweep._worker``. Jobs come in as lines, answers go out as lines.

When the controller dies, the line of jobs ends, and so does the worker, at once: its run has a checkpoint.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, TextIO

from engram.sweep._job import answer

QUIET = 0.5
"""Seconds between two lines that tell of the progress."""


def main() -> None:
    """Work until there are no more jobs."""
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a model of somebody prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller, which asks by SIGTERM
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # between two runs: within one, the run catches it
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        while True:
            job = jobs.get()
            try:
                _say(answers, _answer(job, answers))
            except KeyboardInterrupt:
                _say(answers, {"number": job["number"], "stopped": True})
                return


def _listen(jobs: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _answer(job: dict[str, Any], answers: TextIO) -> dict[str, Any]:
    told = -QUIET

    def tell(run: int, step: int, loss: float) -> None:
        nonlocal told
        if time.monotonic() - told >= QUIET:
            told = time.monotonic()
            _say(answers, {"number": job["number"], "run": run, "step": step, "loss": loss})

    return {"number": job["number"], **answer(job["job"], job["stale"], tell)}


def _say(answers: TextIO, values: dict[str, Any]) -> None:
    try:
        answers.write(json.dumps(values) + "\n")
        answers.flush()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
