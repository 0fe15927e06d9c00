"""What ``engram convert flat`` and ``engram convert deepen`` share."""

import json
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import torch
from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._converted import compared, load_run, settings_of, write_run
from engram.cli._run_words import Allow, Run
from engram.errors import EngramError, OptionError
from engram.nn import RNN
from engram.train import load_network


@dataclass(frozen=True)
class ConvertDepth(ABC):
    """A run whose layer becomes another RNN, which is read out at its last units."""

    folder: Run
    """The run directory."""
    _: KW_ONLY
    output: Annotated[Path, Parameter(alias="-o")]
    """The directory of the new run."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    json: bool = False
    """Print one JSON object."""

    @staticmethod
    @abstractmethod
    def changed(layer: Any) -> RNN:
        """The new layer."""

    def run(self) -> None:
        run, network = load_run(self.folder, self.output, best=not self.last, allow=self.allow)
        old: Any = network.core
        with terminal(stderr=True).status("converting ..."):
            try:
                layer = self.changed(old)
                settings = settings_of(run.settings, layer)
            except EngramError as error:
                raise OptionError(f"{self.folder}, a run of {run.settings.model.label}: {error}") from None
            features: Any = network.head.in_features
            width = layer.hidden_size * layer.directions
            made = write_run(self.output, settings, network, layer, torch.arange(width - features, width))
            found = compared(run.settings, network, load_network(self.output, allow=made.allow))
        report = {
            "run": str(self.output),
            "from": str(self.folder),
            "model": settings.model.name,
            "layers": [run.settings.model.layers, settings.model.layers],
            "hidden": [run.settings.model.hidden, settings.model.hidden],
            **found,
            "results": made.facts["results"],
        }
        print(json.dumps(report) if self.json else _told(report))


def _told(report: dict[str, Any]) -> str:
    (layers, new_layers), (hidden, new_hidden) = report["layers"], report["hidden"]
    return (
        f"{layers} x {hidden} units -> {new_layers} x {new_hidden} units\n"
        f"largest difference of outputs: {report['difference']:.3g} on {report['sequences']:,} test sequences "
        f"(outputs are up to {report['largest_output']:.4g})\n"
        f"run: {report['run']} (engram evaluate {quote(report['run'])})"
    )
