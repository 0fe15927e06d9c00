"""``engram convert flat``."""

from dataclasses import dataclass

from engram.cli._convert_depth import ConvertDepth
from engram.convert import flatten


@dataclass(frozen=True)
class ConvertFlat(ConvertDepth):
    """Turn a deep linear network into one layer of n L units with the same outputs.

    The result is a run of its own: engram evaluate takes it, engram resume --steps trains it further.

    Example: engram convert flat runs/deep -o runs/flat
    """

    changed = staticmethod(flatten)
