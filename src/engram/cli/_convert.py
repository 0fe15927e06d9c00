"""``engram convert``: one subcommand a conversion."""

from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated, Any, Union

import tyro

from engram.cli._convert_automaton import Automaton
from engram.cli._convert_depth import Deepen, Flat
from engram.cli._convert_layer import Onnx, Torch
from engram.cli._convert_unitary import Unitary

CONVERSIONS: dict[str, type] = {
    "unitary": Unitary,
    "flat": Flat,
    "deepen": Deepen,
    "automaton": Automaton,
    "torch": Torch,
    "onnx": Onnx,
}
Conversion: Any = Union[  # noqa: UP007 - made at run time
    tuple(
        Annotated[kind, tyro.conf.subcommand(name, description=cleandoc(kind.__doc__ or ""))]
        for name, kind in CONVERSIONS.items()
    )
]


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
