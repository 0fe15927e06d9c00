"""What a run directory is made of, for whoever looks at one without torch: names, limits, metrics, and who works there.

Directories come from strangers: nothing here imports what they name, and nothing is read through a link.
"""

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from engram.errors import FileError, check_number, check_size
from engram.files import NO_LINK, check_plain, parse_json, read_bounded

CHECKPOINTS = (
    "checkpoint.safetensors",
    "checkpoint.json",
    "checkpoint-before.safetensors",
    "checkpoint-before.json",
)
FILES = ("run.json", "metrics.jsonl", "stdout.log", "curves.svg", "lock", *CHECKPOINTS)
"""What ``engram train`` writes into a run directory."""
RESULT, RUNGS = "result.json", "rung-*.json"
"""What a sweep adds: the result of a run, and how it stood at a step, such as rung-100.json."""
LEASE = re.compile(r"lease\.([1-9][0-9]{0,199})")
"""And its leases, ``lease.1``, ``lease.2``, ...: the highest number is that of the process which works on the run."""
OF_SWEEP = re.compile(r"(result\.json|rung-\d+\.json|lease\.\d+)(\.([0-9a-f]{16}\.)?new)?", re.ASCII)
"""All of these names, and those of files that are being written."""
MOST_FACTS, MOST_METRICS = 2**24, 2**28
"""Bytes of run.json and metrics.jsonl that are read at most."""
SMALLER = ("loss", "mse", "rmse", "mae", "error", "nll", "bits", "bpc", "perplexity")
LARGER = ("accuracy", "r2", "f1", "auc", "return", "reward", "score", "success")
"""The last word of a score's name that says which direction is better."""
LEASE_SECONDS = 30.0
"""A lease that was not renewed for so long is a dead process's."""


def larger_is_better(score: str) -> bool | None:
    """As the name of a score says it; None for one that does not.

    >>> larger_is_better("valid_accuracy"), larger_is_better("loss")
    (True, False)
    """
    word = re.split(r"[^a-z0-9]+", score.lower())[-1]
    return True if word in LARGER else False if word in SMALLER else None


def read_metrics(path: Path, limit: int = MOST_METRICS) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; none if there is no such file. A last line that a kill has cut off is left out."""
    try:
        lines = read_bounded(path, limit).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [_metric(line) for line in lines]


def _metric(line: bytes) -> dict[str, Any]:
    """A line of metrics.jsonl: a step, a split, and numbers by name."""
    values = parse_json(line, finite=False)
    if not isinstance(values, dict) or not isinstance(values.get("split"), str):
        raise ValueError(f"a line has a step and a split, got {values!r:.60}")
    check_size("step", values.get("step"), least=0)
    for name, value in values.items():
        if name != "split":
            check_number(name, value)
    return values


def in_use(folder: Path) -> bool:
    """Whether a process works in this run directory: its lock is held, here or by a lease from another machine."""
    return _lock_is_held(folder / "lock") or _lease_is_fresh(folder)


def _lock_is_held(path: Path) -> bool:
    """A look of microseconds, as one of many readers; a run that starts just then waits a moment for its lock."""
    try:
        check_plain(path)
        handle = os.open(path, os.O_RDONLY | NO_LINK)
    except (OSError, FileError):
        return False
    try:
        from fcntl import LOCK_NB, LOCK_SH, LOCK_UN, flock
    except ImportError:  # Windows
        os.close(handle)
        return _cannot_be_locked(path)
    try:
        flock(handle, LOCK_SH | LOCK_NB)
        flock(handle, LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def _cannot_be_locked(path: Path) -> bool:
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def _lease_is_fresh(folder: Path) -> bool:
    """Whether a lease was written a moment ago; with as much again for clocks of machines that differ."""
    with suppress(OSError):
        written = (folder / f"lease.{newest_lease(folder)}").lstat().st_mtime
        return abs(time.time() - written) < 2 * LEASE_SECONDS
    return False


def lease_numbers(folder: Path) -> list[int]:
    """The numbers of the leases in a run directory."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []
    return [int(found[1]) for name in names if (found := LEASE.fullmatch(name))]


def newest_lease(folder: Path) -> int:
    """The highest number of a lease; 0 if there is none."""
    return max(lease_numbers(folder), default=0)
