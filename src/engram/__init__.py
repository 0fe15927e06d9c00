"""Recurrent networks whose memory you can measure, prove and train fast."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from engram.errors import EngramError

if TYPE_CHECKING:
    from engram import checks, loops, maps, nn
    from engram.nn import safe_globals

__version__ = version("engram")
__all__ = ["EngramError", "__version__", "checks", "loops", "maps", "nn", "safe_globals"]

_ROOMS = (
    "bench",
    "certify",
    "checks",
    "convert",
    "explicit",
    "loops",
    "maps",
    "models",
    "nn",
    "probe",
    "report",
    "runs",
    "tasks",
    "train",
)


def __getattr__(name: str) -> Any:
    """``engram.nn`` and the other rooms are imported when they are first asked for: torch takes a second."""
    if name in _ROOMS:
        return import_module(f"engram.{name}")
    if name == "safe_globals":
        return import_module("engram.nn").safe_globals
    raise AttributeError(f"module 'engram' has no attribute {name!r}")
