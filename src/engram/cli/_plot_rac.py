"""``engram plot rac``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from engram.cli._console import terminal
from engram.report import plot_rac


@dataclass(frozen=True, kw_only=True)
class PlotCircuit:
    """The tensor network of a deep recurrent arithmetic circuit, with its copies of inputs and units.

    Example: engram plot rac --depth 3 --steps 6 -o rac.svg
    """

    depth: int = 3
    """L, the layers."""
    steps: int = 6
    """T, even."""
    output: Annotated[Path, Parameter(alias="-o")] = Path("rac.svg")
    """Where the figure goes (.svg or .png)."""

    def run(self) -> None:
        count = plot_rac(self.depth, self.steps, self.output)
        copies = "copy" if count == 1 else "copies"
        terminal().print(f"{count} {copies} of the unit of layer 1 that joins Start and End\nfigure: {self.output}")
