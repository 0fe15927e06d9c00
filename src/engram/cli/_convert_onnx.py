"""``engram convert onnx``: the network of a run for programs without engram."""

import json
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Parameter

from engram.cli._run_words import Allow, Run, check_run
from engram.convert import sample_input, to_onnx
from engram.errors import OptionError
from engram.train import load_network

STEPS, BATCH = 50, 8
"""Of the random sequences that both networks run on."""


@dataclass(frozen=True)
class ConvertOnnx:
    """Write the network of a run as an ONNX model, for any number of steps and sequences.

    Needs the packages onnx and onnxscript; with onnxruntime the file is run and compared.

    Example: engram convert onnx runs/first -o network.onnx
    """

    folder: Run
    """The run directory; its model has real weights and is none of torch's own."""
    _: KW_ONLY
    output: Annotated[Path, Parameter(alias="-o")]
    """The file, .onnx."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        if self.output.suffix != ".onnx":
            raise OptionError(f"-o must end in .onnx, got {self.output}")
        check_run(self.folder)
        network = load_network(self.folder, best=not self.last, allow=self.allow).eval()
        to_onnx(network, self.output)
        report = {"file": str(self.output), "difference": _difference(network, self.output)}
        print(json.dumps(report) if self.json else _told(report))


@torch.no_grad()
def _difference(network: Any, path: Path) -> float | None:
    """The largest difference of an output to that of onnxruntime; None without it."""
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        return None
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # it warns of what torch's exporter left in the file
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = sample_input(network, STEPS, BATCH)
    (found,) = session.run(None, {"input": inputs.numpy()})
    return float((torch.from_numpy(found) - network(inputs)[0]).abs().max())


def _told(report: dict[str, Any]) -> str:
    apart = report["difference"]
    said = (
        "not compared: onnxruntime is not installed" if apart is None else f"largest difference of outputs: {apart:.3g}"
    )
    return f"{said}\nfile: {report['file']}"
