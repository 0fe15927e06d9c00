"""``engram convert deepen``."""

from dataclasses import dataclass

from engram.cli._convert_depth import ConvertDepth
from engram.convert import deepen


@dataclass(frozen=True)
class ConvertDeepen(ConvertDepth):
    """Add a layer that passes on what it gets: the same outputs, one layer deeper. For linear and ReLU networks.

    Example: engram convert deepen runs/first -o runs/deeper
    """

    changed = staticmethod(deepen)
