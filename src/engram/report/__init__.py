"""Pictures of networks."""

from engram.report._curves import draw_curves
from engram.report._spectrum import draw_spectrum

__all__ = ["draw_curves", "draw_spectrum"]
