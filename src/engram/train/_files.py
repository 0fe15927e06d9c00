"""What only runs do with files: the lock, the lines of a log, and the command that resumes a run."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from filelock import FileLock, Timeout

from engram.errors import BusyError, FileError, RunError, StoppedError
from engram.files import check_plain, open_to_append

MOMENT = 0.1
"""Seconds to wait for a lock: ``engram runs`` may look at it, which takes microseconds."""


def resume_command(folder: Path, allow: Sequence[str] = ()) -> str:
    """The command that resumes this run, ready to type."""
    return f"engram resume {quote(str(folder))}{allowing(allow)}"


def allowing(allow: Sequence[str]) -> str:
    """The flags of a run with code outside engram."""
    return "".join(f" --allow {quote(name.rpartition(':')[0] or name)}" for name in allow)


def check_plain_in(folder: Path, *names: str) -> None:
    """Refuse links and special files: a run reads and writes nothing outside its own folder."""
    for name in names:
        try:
            check_plain(folder / name)
        except FileError as error:
            raise RunError(f"{folder / name} is not of a run: {error}") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process works in a run directory. The system drops the lock of one that dies."""
    check_plain_in(folder, "lock")
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=MOMENT, poll_interval=0.01)
    except Timeout:
        raise BusyError(f"{folder} is in use by another process: wait for it, or stop it first") from None
    try:
        yield
    finally:
        lock.release()


class AppendedFile:
    """A file that grows by lines and can be cut back to where a checkpoint found it."""

    def __init__(self, path: Path, length: int | None = None) -> None:
        self.path = path
        self.file = open_to_append(path)
        if length is not None:
            if length > self.file.tell():
                self.close()
                raise RunError(f"{path} is shorter than its checkpoint says: lines were taken away. Start again")
            self.file.truncate(length)
            self.file.seek(length)

    def write(self, line: str) -> None:
        content = line.encode() + b"\n"
        try:
            if self.file.write(content) != len(content):
                raise OSError(0, "the disk is full")
        except OSError as error:
            raise StoppedError(
                f"{self.path} could not be written ({error.strerror}); the last checkpoint is intact. "
                f"Make room, then: {resume_command(self.path.parent)}"
            ) from error

    @property
    def length(self) -> int:
        return self.file.tell()

    def sync(self) -> None:
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
