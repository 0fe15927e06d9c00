"""A lease: one process at a time works on a run, also on a shared file system, and a dead one is found out.

The owner of ``lease.<n>`` in a folder, where no higher n is, has the lease. It is made by a file that must not exist
(which file systems do atomically, NFS too) and kept alive by a number in it that grows. Whoever sees the same content
for longer than ``LEASE_SECONDS``, by a clock of his own that only runs forwards, may take the next n: so clocks need
not agree, and may be set back. An owner that slept finds its lease gone at the next beat, and ends its process at once:
a run survives that at any instant.
"""

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engram.errors import FileError
from engram.files import read_json, write_whole
from engram.run_files import LEASE_SECONDS, lease_numbers, newest_lease

BEAT = 5.0
"""Seconds between two signs of life."""
MOST_BYTES = 4096


class Lease:
    """The lease of a folder, held by this process. :meth:`take` takes it, :meth:`release` gives it back.

    Args:
        folder: what is leased.
        number: of the lease: each one taken over from a dead owner has the next number.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.path, self.number = folder / f"lease.{number}", number
        self.token, self.beats = secrets.token_hex(8), 0
        self.lost: Callable[[], None] = _end_process
        self._ended, self._writing = threading.Event(), threading.Lock()

    @classmethod
    def take(cls, folder: Path, stale: int = 0) -> "Lease | None":
        """The lease, or None if another has it.

        Args:
            stale: a number that was found dead (:class:`Watch`): the next one may be taken.

        Raises:
            OSError: if it cannot be written, on a full disk for example; nothing is left of it then.
        """
        held = newest_lease(folder)
        if held > stale:
            return None
        lease = cls(folder, held + 1)
        try:
            with lease.path.open("x") as file:
                file.write(lease._content())
        except FileExistsError:
            return None
        except OSError:  # a full disk: an empty lease would be somebody's until it is old
            lease.path.unlink(missing_ok=True)
            raise
        threading.Thread(target=lease._beat, daemon=True, name="lease").start()
        return lease

    def release(self) -> None:
        """Give it back, and take away what dead owners left."""
        self._ended.set()
        with self._writing:  # no beat comes after
            for number in lease_numbers(self.path.parent):
                if number <= self.number:
                    with suppress(OSError):
                        self.path.with_name(f"lease.{number}").unlink()

    def is_held(self) -> bool:
        """Whether it is still ours."""
        with suppress(OSError, FileError):
            found = read_json(self.path, MOST_BYTES)
            ours = isinstance(found, dict) and found.get("token") == self.token
            return ours and newest_lease(self.path.parent) == self.number
        return False

    def beat(self) -> bool:
        """Give one sign of life; False if the lease was lost to another process (not if it was released)."""
        with self._writing:
            if self._ended.is_set():
                return True
            if not self.is_held():
                return False
            self.beats += 1
            with suppress(OSError):  # a full disk is no reason to stop: the next beat may go through
                write_whole(self.path, self._content().encode())
            return True

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            if not self.beat() and not self._ended.is_set():
                self.lost()
                return

    def _content(self) -> str:
        return json.dumps({**this_process(), "token": self.token, "beats": self.beats})


class Watch:
    """Remembers what it saw of the leases, and so tells which have dead owners: those whose content does not change.

    Args:
        seconds: without a sign of life, after which an owner on another machine counts as dead.
        clock: what tells the time, in seconds.
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = LEASE_SECONDS if seconds is None else seconds, clock
        self.seen: dict[Path, tuple[int, Any, float]] = {}

    def stale(self, folder: Path) -> int | None:
        """0 if nobody has the lease of a folder, its number if the owner is dead, None if somebody has it."""
        number = newest_lease(folder)
        if number == 0:
            self.seen.pop(folder, None)
            return 0
        try:
            content: Any = read_json(folder / f"lease.{number}", MOST_BYTES)
        except FileNotFoundError:
            return None  # given back just now
        except (OSError, FileError) as error:
            content = str(error)  # half written: its owner may be about to write the rest
        if isinstance(content, dict) and is_dead(content):
            return number
        before = self.seen.get(folder)
        if before is None or before[:2] != (number, content):
            self.seen[folder] = (number, content, self.clock())
            return None
        return number if self.clock() - before[2] > self.seconds else None


def this_process() -> dict[str, Any]:
    """Who this is, so that others on the same machine need not wait to find out that it is gone."""
    return {"machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def is_dead(owner: dict[str, Any]) -> bool:
    """Whether an owner was on this machine and is gone; False where that is not known."""
    pid = owner.get("pid")
    if owner.get("machine") != _machine() or not isinstance(pid, int) or not owner.get("started"):
        return False
    started = _started(pid)
    return started != owner["started"] and not (started == "" and _is_of_another_user(pid))


def _machine() -> str:
    """A name for this machine, its last start and this container: process numbers are unique only within these."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""


def _started(pid: int) -> str:
    """When a process was started, in ticks since the machine was; empty if there is no such process, or no /proc."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]  # a zombie is gone
    return ""


def _is_of_another_user(pid: int) -> bool:
    """Whether there is such a process, of a user whose processes /proc may hide (hidepid)."""
    try:
        os.kill(pid, 0)  # no signal is sent
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _end_process() -> None:
    os._exit(75)  # the run is another's now: not a byte more is written here
