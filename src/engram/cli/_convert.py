"""``engram convert``: one subcommand a conversion."""

from dataclasses import dataclass
from typing import Any

from engram.cli._convert_automaton import Automaton
from engram.cli._convert_depth import Deepen, Flat
from engram.cli._convert_layer import Onnx, Torch
from engram.cli._convert_unitary import Unitary
from engram.cli._subcommands import subcommands

CONVERSIONS: dict[str, type] = {
    "unitary": Unitary,
    "flat": Flat,
    "deepen": Deepen,
    "automaton": Automaton,
    "torch": Torch,
    "onnx": Onnx,
}
Conversion: Any = subcommands(CONVERSIONS)


@dataclass(frozen=True)
class Convert:
    """Turn a network into another one that computes the same, and measure that it does.

    Examples:
        engram convert flat runs/deep -o runs/flat
        engram convert automaton 1.pautomac_model.txt -o net.safetensors
        engram convert torch runs/first -o rnn.safetensors
    """

    conversion: Conversion
    """What to turn it into."""

    def run(self) -> None:
        self.conversion.run()
