"""``engram plot``: one command per figure."""

from engram.cli._command import Group
from engram.cli._plot_attention import PlotAttention
from engram.cli._plot_rac import PlotCircuit
from engram.cli._plot_spectrum import PlotSpectrum
from engram.cli._plot_task import task_app

PLOT = Group(
    """Plot a figure as .svg or .png.

    Examples:
        engram plot spectrum runs/first
        engram plot spectrum --model nnrnn -o spectrum.svg
        engram plot task identity-rules --holdout 95 -o examples.png
        engram plot rac --depth 3 --steps 6 -o rac.svg
        engram plot attention runs/first
    """,
    "figure",
    {"spectrum": PlotSpectrum, "task": task_app, "rac": PlotCircuit, "attention": PlotAttention},
)
