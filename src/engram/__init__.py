"""Recurrent networks whose memory you can measure, prove and train fast."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from engram.errors import EngramError

if TYPE_CHECKING:
    from engram import checks, loops, maps, nn, relational
    from engram.relational import safe_globals

__version__ = version("engram")
__all__ = ["EngramError", "__version__", "checks", "loops", "maps", "nn", "relational", "safe_globals"]

_ROOMS = (
    "atlas",
    "bench",
    "certify",
    "checks",
    "convert",
    "exact",
    "explicit",
    "figures",
    "loops",
    "maps",
    "models",
    "nn",
    "probe",
    "relational",
    "report",
    "runs",
    "sweep",
    "tasks",
    "theory",
    "train",
)


def __getattr__(name: str) -> Any:
    """``engram.nn`` and the other rooms are imported when they are first asked for: torch takes a second."""
    if name in _ROOMS:
        return import_module(f"engram.{name}")
    if name == "safe_globals":
        return import_module("engram.relational").safe_globals
    raise AttributeError(f"module 'engram' has no attribute {name!r}")
