"""A run directory before something is done to it: what is in it, whether it is a run, and whether it is in use."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engram.errors import BusyError, FileError, RunError
from engram.files import beside, check_plain, printable
from engram.run_files import FILES, OF_SWEEP, in_use

OWN = {*FILES, *(beside(Path(name)).name for name in FILES)}
MOST = 100_000
"""Files of a directory that are looked at, at most: no run has more."""


@dataclass(frozen=True)
class Contents:
    """What a run directory has in it."""

    files: tuple[str, ...]
    """Every plain file, by its path within the directory."""
    folders: tuple[str, ...]
    """Every folder, likewise."""
    links: tuple[str, ...]
    """Links, pipes and the like, which nobody follows or opens."""
    size: int
    """In bytes."""

    @property
    def others(self) -> tuple[str, ...]:
        """What engram did not make: files of the user."""
        return tuple(name for name in (*self.files, *self.links) if not _is_own(name))


def _is_own(name: str) -> bool:
    first, _, rest = name.partition("/")
    if rest:
        return first == "tensorboard" and "/" not in rest
    return first in OWN or OF_SWEEP.fullmatch(first) is not None


def contents(folder: Path) -> Contents:
    """Everything below a run directory, links as links."""
    files, folders, links, size = list[str](), list[str](), list[str](), 0
    left = [""]
    while left:
        within = left.pop()
        with os.scandir(folder / within) as entries:
            for entry in entries:
                name = f"{within}/{entry.name}" if within else entry.name
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    folders.append(name)
                    left.append(name)
                elif stat.S_ISREG(found.st_mode):
                    files.append(name)
                    size += found.st_size
                else:
                    links.append(name)
                if len(files) + len(folders) + len(links) > MOST:
                    raise RunError(f"{_shown(folder)} has more than {MOST:,} files: that is no run")
    return Contents(tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(links)), size)


def check_run_folder(folder: Path) -> None:
    """Refuse what is not a run directory, or holds others, or is in use."""
    if folder.is_symlink():
        raise RunError(f"{_shown(folder)} is a link, which is not followed: give the folder itself")
    if folder.name in ("", "..") or not folder.is_dir():
        raise RunError(f"{_shown(folder)} is not a run: there is no such folder. engram runs lists them")
    if not os.path.lexists(folder / "run.json"):
        raise RunError(f"{_shown(folder)} is not a run: it has no run.json. engram runs lists them")
    inner = [name for name in contents(folder).files if name != "run.json" and name.endswith("/run.json")]
    if inner:
        raise RunError(
            f"{_shown(folder)} has another run within it, {_shown(Path(inner[0]).parent)}: take that out first"
        )
    if in_use(folder):
        raise BusyError(_used(folder))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Within this block no other process works in the run directory."""
    check_run_folder(folder)
    path = folder / "lock"
    try:
        check_plain(path)
    except FileError as error:
        raise RunError(f"{_shown(path)} is not of a run: {error}") from None
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise BusyError(_used(folder)) from None
    try:
        yield
    finally:
        lock.release()


def _used(folder: Path) -> str:
    return f"{_shown(folder)} is in use by another process: wait for it, or stop it first"


def _shown(path: Path) -> str:
    return printable(str(path))
