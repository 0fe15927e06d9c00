"""What this machine has: a place to keep things, and memory."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$ENGRAM_CACHE``, or ``engram`` in the user's cache folder."""
    if named := os.environ.get("ENGRAM_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engram"


def free_memory() -> float:
    """In MB; what cannot be told counts as 4 GB."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123 - a pseudo file
            return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (AttributeError, ValueError, OSError):
        return 4000.0
