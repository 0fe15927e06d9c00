"""``engram draw``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from engram.cli._console import plain
from engram.cli._subcommands import subcommands
from engram.errors import OptionError, check_size
from engram.models import make_core
from engram.nn import Recurrent
from engram.report import plot_rac, plot_spectrum


@dataclass(frozen=True)
class Spectrum:
    """The spectrum of a model's recurrent matrix at its start: eigenvalues, singular values, Schur form.

    Example: engram draw spectrum --model nnrnn -o spectrum.svg
    """

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
        layer: Any = make_core(self.model, 1, check_size("--hidden", self.hidden), output_size=1, steps=2)
        cell = layer.cells[0] if isinstance(layer, Recurrent) else None
        matrix = getattr(cell, "rotation", None) if hasattr(cell, "rotation") else getattr(cell, "weight_hh", None)
        if matrix is None or matrix.shape[0] != matrix.shape[1]:  # that of gates is a block for each
            raise OptionError(f"{self.model} has no recurrent matrix whose spectrum could be drawn")
        plot_spectrum(matrix, self.output, f"{self.model}, N = {self.hidden}, at the start")
        plain().print(f"figure: {self.output}")


@dataclass(frozen=True)
class Circuit:
    """The tensor network of a deep recurrent arithmetic circuit, with its copies of inputs and units.

    Example: engram draw rac --depth 3 --steps 6 -o rac.svg
    """

    depth: int = 3
    """L, the layers."""
    steps: int = 6
    """T, even."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("rac.svg")
    """Where the picture goes (.svg or .png)."""

    def run(self) -> None:
        count = plot_rac(self.depth, self.steps, self.output)
        copies = "copy" if count == 1 else "copies"
        plain().print(f"{count} {copies} of the unit of layer 1 that joins Start and End\nfigure: {self.output}")


PICTURES: dict[str, type] = {"spectrum": Spectrum, "rac": Circuit}
Picture: Any = subcommands(PICTURES)


@dataclass(frozen=True)
class Draw:
    """Draw a picture, as .svg or .png.

    Examples:
        engram draw spectrum --model nnrnn -o spectrum.svg
        engram draw rac --depth 3 --steps 6 -o rac.svg
    """

    picture: Picture
    """What to draw."""

    def run(self) -> None:
        self.picture.run()
