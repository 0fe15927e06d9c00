"""``engram draw``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console

from engram.errors import check_size
from engram.nn import make_model
from engram.report import draw_spectrum


@dataclass(frozen=True)
class Draw:
    """Draw the spectrum of a model's recurrent matrix at its start: eigenvalues, singular values, Schur form.

    Example: engram draw spectrum --model nnrnn -o spectrum.svg
    """

    what: Annotated[Literal["spectrum"], tyro.conf.Positional] = "spectrum"
    """What to draw."""
    model: str = "exprnn"
    """A name of `engram list models`."""
    hidden: int = 64
    """N, the hidden units."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("spectrum.svg")
    """Where the picture goes (.svg or .png)."""
    seed: int = 0
    """Of the start."""

    def run(self) -> None:
        torch.manual_seed(self.seed)
        layer: Any = make_model(self.model, 1, check_size("--hidden", self.hidden))
        cell = layer.cells[0]
        matrix = cell.rotation if hasattr(cell, "rotation") else cell.weight_hh
        draw_spectrum(matrix, self.output, f"{self.model}, N = {self.hidden}, at the start")
        Console().print(f"figure: {self.output}")
