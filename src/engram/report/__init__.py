"""Figures and pages of networks, runs and certificates."""

from engram.report._atlas import atlas_page, atlas_summary
from engram.report._atlas_figure import plot_atlas
from engram.report._attention import plot_attention_weights
from engram.report._compare import plot_compare
from engram.report._compare_page import compare_page, write_text
from engram.report._curves import plot_curves
from engram.report._find_lr import plot_rates
from engram.report._probe import probe_page, write_probe_page
from engram.report._rac import plot_rac
from engram.report._recall import plot_recall
from engram.report._size import plot_sizes
from engram.report._spectrum import plot_spectrum
from engram.report._task import plot_task

__all__ = [
    "atlas_page",
    "atlas_summary",
    "compare_page",
    "plot_atlas",
    "plot_attention_weights",
    "plot_compare",
    "plot_curves",
    "plot_rac",
    "plot_rates",
    "plot_recall",
    "plot_sizes",
    "plot_spectrum",
    "plot_task",
    "probe_page",
    "write_probe_page",
    "write_text",
]
