"""The layers that race: engram's, torch's, the cell as a Python loop, peers from the registry, and the floor."""

import importlib
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.bench._floor import floor, products_of
from engram.bench._size import Kind, Size
from engram.bench._worker_program import make_layer
from engram.loops import activate, use
from engram.nn import RNN


class LoopRNN(nn.Module):
    """A tanh or modReLU RNN as most people first write it: a linear map of the input and one of the state per step."""

    def __init__(self, input_size: int, hidden_size: int, activation: str = "tanh") -> None:
        super().__init__()
        self.input = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)
        self.activation = activation
        self.mod_bias = nn.Parameter(torch.zeros(hidden_size)) if activation == "modrelu" else None

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        h = input.new_zeros(input.shape[1], self.recurrent.in_features)
        outputs = []
        for x in input:
            h = activate(self.activation, self.input(x) + self.recurrent(h), self.mod_bias)
            outputs.append(h)
        return torch.stack(outputs), h


class GeotorchRNN(LoopRNN):
    """The cell of geotorch's copying example: modReLU, an orthogonal recurrent kernel, cached over the sequence."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, "modrelu")
        importlib.import_module("geotorch").orthogonal(self.recurrent, "weight")

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        with parametrize.cached():
            return super().forward(input)


def training_step(layer: nn.Module, input: Tensor, gradient: Tensor, executor: str = "auto") -> Callable[[], None]:
    """Forward and backward of one layer, weight gradients included, as a call."""

    def call() -> None:
        layer.zero_grad(set_to_none=True)
        with use(executor):
            layer(input)[0].backward(gradient)

    return call


ENGRAM: dict[str, Kind] = {
    "engram": ("engram.nn:RNN", {}),
    "engram-modrelu": ("engram.nn:RNN", {"activation": "modrelu"}),
    "engram-exponential": ("engram.nn:RNN", {"activation": "modrelu", "map": "exponential"}),
    "engram-cayley": ("engram.nn:RNN", {"activation": "modrelu", "map": "cayley"}),
    "ExpRNN": ("engram.nn:ExpRNN", {}),
    "ScoRNN": ("engram.nn:ScoRNN", {}),
    "NonNormalRNN": ("engram.nn:NonNormalRNN", {}),
}
"""Ours. All of them are in version 0.1, too."""


def contestants(size: Size) -> dict[str, Callable[[], None]]:
    """Every contestant that is installed, ready to be called at this size."""
    input, gradient = torch.randn(size.T, size.B, size.D), torch.randn(size.T, size.B, size.H)

    def other(layer: nn.Module) -> Callable[[], None]:
        return training_step(layer, input, gradient)

    found = {name: other(make_layer(make, size.D, size.H, options)) for name, (make, options) in ENGRAM.items()}
    for name in ("engram", "engram-modrelu"):
        make, options = ENGRAM[name]
        layer = make_layer(make, size.D, size.H, options)
        found[f"{name}-uncompiled"] = training_step(layer, input, gradient, "torch")
    found |= {
        "torch.nn.RNN": other(nn.RNN(size.D, size.H)),
        "torch.nn.LSTM": other(nn.LSTM(size.D, size.H)),
        "python-loop": other(LoopRNN(size.D, size.H)),
        "python-loop-modrelu": other(LoopRNN(size.D, size.H, "modrelu")),
    }
    if (products := products_of(RNN(size.D, size.H))) is not None:
        found["floor"] = floor(products, size)
    if importlib.util.find_spec("geotorch"):
        found["geotorch"] = other(GeotorchRNN(size.D, size.H))
    if importlib.util.find_spec("torchrecurrent"):
        peer = importlib.import_module("torchrecurrent").AntisymmetricRNN  # its plainest cell: one gate, tanh
        found["torchrecurrent"] = other(peer(size.D, size.H))
    return found
