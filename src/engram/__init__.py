"""Recurrent networks whose memory you can measure, prove and train fast."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from engram import kernels, maps, nn
from engram.errors import EngramError
from engram.nn import safe_globals

__version__ = version("engram")
__all__ = ["EngramError", "__version__", "kernels", "maps", "nn", "safe_globals"]

_ROOMS = ("bench", "certify", "convert", "probe", "report", "tasks", "train")


def __getattr__(name: str) -> Any:
    """``engram.probe`` and the other rooms are imported when they are first asked for."""
    if name in _ROOMS:
        return import_module(f"engram.{name}")
    raise AttributeError(f"module 'engram' has no attribute {name!r}")
