"""``engram plot spectrum``."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Parameter
from torch import Tensor

from engram.cli._console import terminal
from engram.cli._run_words import Allow, check_run
from engram.errors import OptionError, check_size
from engram.files import printable
from engram.models import make_core
from engram.nn import Recurrent
from engram.report import plot_spectrum
from engram.train import RunDirectory, load_network, steps_trained


@dataclass(frozen=True)
class PlotSpectrum:
    """The spectrum of a recurrent matrix: eigenvalues, singular values, Schur form. Of a trained run or a new model.

    Examples:
        engram plot spectrum runs/first
        engram plot spectrum --model nnrnn -o spectrum.svg
    """

    folder: Annotated[Path | None, Parameter(name="RUN", metavar="RUN")] = None
    """A run directory, whose trained matrix is plotted (of the first layer)."""
    _: KW_ONLY
    model: str | None = None
    """Without a run: a name of engram list models, whose matrix is plotted as it is initialised; default: exprnn."""
    hidden: int | None = None
    """Without a run: N, the hidden units; default: 64."""
    seed: int | None = None
    """Without a run: random seed of the weights; default: 0."""
    last: bool = False
    """Of a run: the last weights, not those of the best validation."""
    allow: Allow = ()
    """Of a run: packages or files whose code it may import, of a model or a task of your own."""
    output: Annotated[Path, Parameter(alias="-o")] = Path("spectrum.svg")
    """Where the figure goes (.svg or .png)."""

    def run(self) -> None:
        layer, name, title = self._trained(self.folder) if self.folder is not None else self._new()
        matrix = square_matrix(layer)
        if matrix is None:
            raise OptionError(f"{name} has no square recurrent matrix whose spectrum could be plotted")
        plot_spectrum(matrix, self.output, title)
        terminal().print(f"figure: {self.output}")

    def _trained(self, folder: Path) -> tuple[Any, str, str]:
        given = [f"--{name}" for name in ("model", "hidden", "seed") if getattr(self, name) is not None]
        if given:
            raise OptionError(f"{', '.join(given)}: without a run only; {folder} has a model of its own")
        check_run(folder)
        run = RunDirectory(folder, self.allow)
        network = load_network(folder, best=not self.last, allow=self.allow)
        model, task = run.settings.model, run.settings.task
        steps = steps_trained(folder, best=not self.last)
        layer = f"layer 1 of {model.layers}, " if model.layers > 1 else ""
        title = f"{model.label}, {layer}N = {model.hidden}, after {steps:,} steps on {task.name}"
        return network.core, f"{printable(str(folder))} ({model.label})", title

    def _new(self) -> tuple[Any, str, str]:
        torch.manual_seed(check_size("--seed", self.seed or 0, least=0))
        model, hidden = self.model or "exprnn", 64 if self.hidden is None else check_size("--hidden", self.hidden)
        layer = make_core(model, 1, hidden, output_size=1, steps=2)
        return layer, model, f"{model}, N = {hidden}, as initialised"


def square_matrix(layer: Any) -> Tensor | None:
    """The recurrent matrix of the first layer; None where there is none, or one block for each gate."""
    if isinstance(layer, Recurrent):
        cell = layer.cells[0]
        matrix = getattr(cell, "rotation", None) if hasattr(cell, "rotation") else getattr(cell, "weight_hh", None)
    else:
        matrix = getattr(layer, "weight_hh_l0", None)
    if matrix is None or matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        return None
    return matrix
