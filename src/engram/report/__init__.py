"""Pictures of networks."""

from engram.report._spectrum import draw_spectrum

__all__ = ["draw_spectrum"]
