"""Pictures and pages of networks, runs and certificates."""

from engram.report._atlas import atlas_page, atlas_summary, draw_atlas
from engram.report._curves import draw_curves
from engram.report._probe import probe_page, write_probe_page
from engram.report._rac import draw_rac
from engram.report._spectrum import draw_spectrum

__all__ = [
    "atlas_page",
    "atlas_summary",
    "draw_atlas",
    "draw_curves",
    "draw_rac",
    "draw_spectrum",
    "probe_page",
    "write_probe_page",
]
