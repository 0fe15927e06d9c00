"""``engram convert torch``: the layer of a run for programs without engram."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import safetensors.torch
import torch
from cyclopts import Parameter
from torch import nn

from engram.cli._run_words import Allow, Run, check_run
from engram.errors import OptionError
from engram.files import write_whole
from engram.nn import GRU, LSTM, RNN
from engram.state import each
from engram.train import load_network

STEPS, BATCH = 50, 8
"""Of the random sequences that both layers run on."""
SIZES = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional")


@dataclass(frozen=True)
class ConvertTorch:
    """Write the layer of a run as the state dict of a torch.nn.RNN, LSTM or GRU, in a safetensors file.

    The matrix of a map is baked in. The file's metadata names the class and its sizes.

    Example: engram convert torch runs/first -o rnn.safetensors
    """

    folder: Run
    """The run directory; its model has activation tanh or relu, or is torch's own."""
    _: KW_ONLY
    output: Annotated[Path, Parameter(alias="-o")]
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
        check_run(self.folder)
        layer = load_network(self.folder, best=not self.last, allow=self.allow).core
        if not isinstance(layer, RNN | LSTM | GRU | nn.RNNBase):
            raise OptionError(
                f"{self.folder} has the layer {type(layer).__name__}: only an RNN, LSTM or GRU is one of torch's"
            )
        equal: Any = layer if isinstance(layer, nn.RNNBase) else layer.to_torch()
        facts = {"class": type(equal).__name__} | {name: str(getattr(equal, name)) for name in SIZES}
        facts |= {"nonlinearity": equal.nonlinearity} if isinstance(equal, nn.RNN) else {}
        facts |= {"proj_size": str(equal.proj_size)} if equal.proj_size else {}
        write_whole(self.output, safetensors.torch.save(equal.state_dict(), facts))
        report = {"file": str(self.output), **facts, "difference": _difference(layer, equal)}
        print(json.dumps(report) if self.json else _told(report))


@torch.no_grad()
def _difference(layer: Any, equal: Any) -> float:
    """Of the last states, on random sequences."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS, BATCH, equal.input_size, generator=generator, dtype=equal.weight_ih_l0.dtype)
    apart = each(lambda a, b: (a - b).abs().max(), layer(x)[1], equal(x)[1])
    return max(map(float, apart)) if isinstance(apart, tuple) else float(apart)


def _told(report: dict[str, Any]) -> str:
    return (
        f"nn.{report['class']}, {report['num_layers']} x {report['hidden_size']} units, "
        f"from {report['input_size']} inputs\n"
        f"largest difference of states: {report['difference']:.3g} on {BATCH} random sequences of {STEPS} steps\n"
        f"file: {report['file']}"
    )
