"""``engram convert``: one command per conversion."""

from engram.cli._command import Group
from engram.cli._convert_automaton import ConvertAutomaton
from engram.cli._convert_deepen import ConvertDeepen
from engram.cli._convert_flat import ConvertFlat
from engram.cli._convert_onnx import ConvertOnnx
from engram.cli._convert_torch import ConvertTorch
from engram.cli._convert_unitary import ConvertUnitary

CONVERT = Group(
    """Turn a network into another one that computes the same, and measure that it does.

    Examples:
        engram convert flat runs/deep -o runs/flat
        engram convert automaton 1.pautomac_model.txt -o net.safetensors
        engram convert torch runs/first -o rnn.safetensors
    """,
    "conversion",
    {
        "unitary": ConvertUnitary,
        "flat": ConvertFlat,
        "deepen": ConvertDeepen,
        "automaton": ConvertAutomaton,
        "torch": ConvertTorch,
        "onnx": ConvertOnnx,
    },
)
