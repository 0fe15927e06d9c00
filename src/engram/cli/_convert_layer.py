"""``engram convert torch`` and ``engram convert onnx``: a run for programs without engram."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import safetensors.torch
import torch
import tyro
from torch import nn

from engram.cli._allow import Allow
from engram.convert import sample_input, to_onnx
from engram.errors import OptionError
from engram.files import write_whole
from engram.nn import RNN
from engram.state import each
from engram.train import load_network

STEPS, BATCH = 50, 8
SIZES = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional")


@dataclass(frozen=True)
class Torch:
    """Write the layer of a run as the state dict of a torch.nn.RNN, LSTM or GRU, in a safetensors file.

    The matrix of a map is baked in. The file's metadata names the class and its sizes.

    Example: engram convert torch runs/first -o rnn.safetensors
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The run directory; its model has activation tanh or relu, or is torch's own."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The file, .safetensors."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        if self.output.suffix != ".safetensors":
            raise OptionError(f"-o must end in .safetensors, got {self.output}")
        layer = _layer(self.folder, self.allow, best=not self.last)
        if not isinstance(layer, RNN | nn.RNNBase):
            raise OptionError(f"{self.folder} has a {type(layer).__name__}: only an RNN, LSTM or GRU is one of torch's")
        plain: Any = layer.to_torch() if isinstance(layer, RNN) else layer
        facts = {"class": type(plain).__name__} | {name: str(getattr(plain, name)) for name in SIZES}
        facts |= {"nonlinearity": plain.nonlinearity} if isinstance(plain, nn.RNN) else {}
        write_whole(self.output, safetensors.torch.save(plain.state_dict(), facts))
        report = {"file": str(self.output), **facts, "difference": _difference(layer, plain)}
        print(json.dumps(report) if self.json else _told(report))


@dataclass(frozen=True)
class Onnx:
    """Write the network of a run as an ONNX model, for any number of steps and sequences.

    Needs the packages onnx and onnxscript; with onnxruntime the file is run and compared.

    Example: engram convert onnx runs/first -o network.onnx
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The run directory; its model has real weights and is none of torch's own."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
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
        network = load_network(self.folder, best=not self.last, allow=self.allow).eval()
        to_onnx(network, self.output)
        report = {"file": str(self.output), "difference": _onnx_difference(network, self.output)}
        print(json.dumps(report) if self.json else _told_of_onnx(report))


@torch.no_grad()
def _onnx_difference(network: Any, path: Path) -> float | None:
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


def _told_of_onnx(report: dict[str, Any]) -> str:
    apart = report["difference"]
    said = (
        "not compared: onnxruntime is not installed" if apart is None else f"largest difference of outputs: {apart:.3g}"
    )
    return f"{said}\nfile: {report['file']}"


def _layer(folder: Path, allow: Sequence[str], *, best: bool) -> nn.Module:
    return load_network(folder, best=best, allow=allow).core


@torch.no_grad()
def _difference(layer: Any, plain: Any) -> float:
    """Of the last states, on random sequences."""
    like = plain.weight_ih_l0
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS, BATCH, plain.input_size, generator=generator, dtype=like.dtype)
    apart = each(lambda a, b: (a - b).abs().max(), layer(x)[1], plain(x)[1])
    return max(map(float, apart)) if isinstance(apart, tuple) else float(apart)


def _told(report: dict[str, Any]) -> str:
    return (
        f"nn.{report['class']}, {report['num_layers']} x {report['hidden_size']} units, "
        f"from {report['input_size']} inputs\n"
        f"largest difference of states: {report['difference']:.3g} on {BATCH} random sequences of {STEPS} steps\n"
        f"file: {report['file']}"
    )
