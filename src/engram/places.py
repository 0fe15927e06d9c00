"""What this machine has: a place to keep things, and memory."""

import os
import stat
from pathlib import Path

from engram.errors import OptionError


def cache_folder() -> Path:
    """``$ENGRAM_CACHE``, or ``engram`` in the user's cache folder."""
    if named := os.environ.get("ENGRAM_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engram"


def why_not_private(path: Path) -> str:
    """Why somebody other than the user could have put something there, in words; empty if nobody could.

    A link is judged by itself: whoever made it decides where it leads.
    """
    try:
        found = path.lstat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return f"{path} is a link or a special file"
    if os.name == "nt":
        return ""  # folders of a user are closed to others there, and modes do not say
    if found.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    if found.st_mode & 0o022:
        return f"{path} can be written by other users (chmod go-w)"
    return ""


def free_memory() -> float:
    """In MB, within the limit of a container; what cannot be told counts as 4 GB."""
    return min(_of_the_machine(), _of_the_container())


def _of_the_container() -> float:
    group = Path("/sys/fs/cgroup")
    try:
        kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(kinds["inactive_file"])  # the system gives that back
        return (int((group / "memory.max").read_text()) - used) / 1e6
    except (OSError, ValueError, KeyError):  # no container, or no limit: "max"
        return float("inf")


def _of_the_machine() -> float:
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123 - a pseudo file
            return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (AttributeError, ValueError, OSError):
        return 4000.0


NUMBER = 4
"""Bytes of a number in float32, the smallest that a run computes with."""


def check_fits(what: str, numbers: int, free: float, smaller: str) -> None:
    """Refuse this many numbers if they need more than ``free`` MB."""
    need = NUMBER * numbers // 10**6
    if need > free:
        raise OptionError(
            f"{what} needs {need:,} MB or more ({numbers:,} numbers), and {free:,.0f} MB are free: "
            f"choose fewer {smaller}"
        )
