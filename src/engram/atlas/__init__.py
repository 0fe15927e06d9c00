"""Questions that certificates answer together: an atlas of all rank claims up to a size, and the width of one layer."""

from engram.atlas._atlas import atlas
from engram.atlas._min_width import min_width
from engram.atlas._range import Range
from engram.atlas._survey import survey

__all__ = ["Range", "atlas", "min_width", "survey"]
