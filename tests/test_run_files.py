"""What stands in a run directory, as those see it who only look: scores, metrics, leases and locks."""

import os
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from engram import run_files
from engram.errors import EngramError, FileError
from engram.run_files import LEASE_SECONDS, in_use, larger_is_better, lease_numbers, newest_lease, read_metrics

DIRECTIONS = {
    "accuracy": True,
    "valid_accuracy": True,
    "Valid/R2": True,
    "MSE": False,
    "test.Loss": False,
    "bits per character": None,
    "loss_ratio": None,
    "": None,
}


@pytest.mark.parametrize("score", DIRECTIONS)
def test_the_last_word_of_a_score_says_which_is_better(score: str) -> None:
    assert larger_is_better(score) is DIRECTIONS[score]


def test_metrics_line_by_line(tmp_path: Path) -> None:
    """Step 0 is one, NaN and Infinity are read, and the part of a line at the end is left out."""
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text('{"step": 0, "split": "train", "loss": Infinity}\n{"step": 7, "split": "valid", "a": 1}\n{"step"')
    assert read_metrics(path) == [
        {"step": 0, "split": "train", "loss": float("inf")},
        {"step": 7, "split": "valid", "a": 1},
    ]
    size = path.stat().st_size
    assert len(read_metrics(path, size)) == 2
    with pytest.raises(FileError, match=f"at most {size - 1} are read"):
        read_metrics(path, size - 1)


@pytest.mark.parametrize(
    "line",
    [
        "[]", '{"step": 1}', '{"step": 1, "split": 2}', '{"split": "train"}', '{"step": -1, "split": "train"}',
        '{"step": 1.5, "split": "train"}', '{"step": 1, "split": "train", "loss": "low"}',
        '{"step": 1, "split": "train", "loss": true}', "",
    ],
)  # fmt: skip
def test_lines_that_are_no_metrics(line: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises((EngramError, ValueError), match=r"must be|has a step|is empty"):
        read_metrics(tmp_path / "metrics.jsonl")


def test_the_numbers_of_leases(tmp_path: Path) -> None:
    """Whole names only: not those of files that are being written, and no number with a zero before it."""
    assert (lease_numbers(tmp_path), newest_lease(tmp_path)) == ([], 0)
    assert (lease_numbers(tmp_path / "none"), newest_lease(tmp_path / "none")) == ([], 0)
    for name in ("lease.2", "lease.10", "lease.11.new", "lease.012", "lease.0", "lease.", "a lease.12", "lease.1x"):
        (tmp_path / name).touch()
    assert sorted(lease_numbers(tmp_path)) == [2, 10]
    assert newest_lease(tmp_path) == 10


@pytest.mark.parametrize("share", [-3, -1.5, -1.1, 0.5, 1.1, 1.5, 2.1, 100])
def test_a_lease_is_fresh_for_twice_its_seconds(share: float, tmp_path: Path) -> None:
    """Before and after now, since clocks of machines differ. Of several leases the newest number counts."""
    now = time.time()
    for number, written in ((9, now - 1000 * LEASE_SECONDS), (10, now - share * LEASE_SECONDS)):
        (tmp_path / f"lease.{number}").touch()
        os.utime(tmp_path / f"lease.{number}", (written, written))
    assert in_use(tmp_path) == (abs(share) < 2)


def test_a_lock_that_is_held(tmp_path: Path) -> None:
    """Also while others look at it, which takes a shared lock for a moment."""
    assert not in_use(tmp_path)
    (tmp_path / "lock").touch()
    assert not in_use(tmp_path)
    with FileLock(tmp_path / "lock"):
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="flock")
def test_somebody_who_only_looks_does_not_hold_a_lock(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not in_use(tmp_path)
        fcntl.flock(file, fcntl.LOCK_EX)
        assert in_use(tmp_path)


def test_a_system_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows: whether the lock can be had is tried, and it is given back at once."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert not in_use(tmp_path)
    (tmp_path / "lock").touch()
    for _ in range(2):
        assert not in_use(tmp_path)
        with FileLock(tmp_path / "lock", timeout=0):  # nobody else has it now
            assert in_use(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="flock")
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot tell, so nobody is there; and the look leaves no file open."""
    import fcntl

    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    (tmp_path / "lock").touch()
    opened, closed = [], []
    open_, close = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *words: opened.append(open_(*words)) or opened[-1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), close(handle)))
    for lock in (none, fcntl.flock):
        monkeypatch.setattr(fcntl, "flock", lock)
        assert not in_use(tmp_path)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(run_files, "_cannot_be_locked", lambda path: True)
    assert in_use(tmp_path)
    assert opened == closed
    assert len(opened) == 3


def test_a_lock_that_is_a_trap(tmp_path: Path) -> None:
    """A link to the lock of another run, which is held, says nothing of this one; nor does a folder."""
    (tmp_path / "other").mkdir()
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "other" / "lock"):
        (tmp_path / "run" / "lock").symlink_to(tmp_path / "other" / "lock")
        assert not in_use(tmp_path / "run")
        (tmp_path / "run" / "lock").unlink()
        (tmp_path / "run" / "lock").mkdir()
        assert not in_use(tmp_path / "run")


NAMES = {
    "result.json": True, "rung-100.json": True, "lease.1": True, "lease.007": True, "result.json.new": True,
    "rung-1.json.0123456789abcdef.new": True, "lease.3.new": True, "result.json.0123456789abcde.new": False,
    "result.json.0123456789abcdef": False, "xresult.json": False, "rung-.json": False, "rung-a.json": False,
    "lease.": False, "lease.1.old": False, "resultxjson": False, "result.json.0123456789ABCDEF.new": False,
    "lease.\u0663": False, "run.json": False,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_a_sweep(name: str) -> None:
    assert bool(run_files.OF_SWEEP.fullmatch(name)) == NAMES[name]


def test_the_number_of_a_lease_has_at_most_200_digits(tmp_path: Path) -> None:
    """As many as the name of a file may have; no zero in front."""
    for name in ("9" * 200, "8" * 201, "07"):
        (tmp_path / f"lease.{name}").touch()
    assert newest_lease(tmp_path) == 10**200 - 1
