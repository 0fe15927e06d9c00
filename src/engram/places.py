"""Where engram keeps things on this machine."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$ENGRAM_CACHE``, or ``engram`` in the user's cache folder."""
    if named := os.environ.get("ENGRAM_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engram"
