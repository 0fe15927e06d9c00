"""The layers that race: engram's, torch's, the cell as a Python loop, peers from the registry, and the floor."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.loops import activate, use
from engram.nn import RNN, ExpRNN, NonNormalRNN, ScoRNN


class Size(NamedTuple):
    """Steps, batch, hidden units, input features."""

    T: int
    B: int
    H: int
    D: int


class LoopRNN(nn.Module):
    """The tanh or modReLU RNN as everyone first writes it: a linear map of input and state at every step."""

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


def training_step(layer: nn.Module, input: Tensor, gradient: Tensor, kernel: str = "auto") -> Callable[[], None]:
    """Forward and backward of one layer, weight gradients included, as a call."""

    def call() -> None:
        layer.zero_grad(set_to_none=True)
        with use(kernel):
            layer(input)[0].backward(gradient)

    return call


def floor(size: Size) -> Callable[[], None]:
    """The matrix products that no implementation can do without, on memory that is there already."""
    h, w, out = torch.randn(size.B, size.H), torch.randn(size.H, size.H), torch.empty(size.B, size.H)
    rows, input = torch.randn(size.T * size.B, size.H), torch.randn(size.T * size.B, size.D)
    drive, grad_h, grad_x = torch.empty_like(rows), torch.empty(size.H, size.H), torch.empty(size.H, size.D)
    w_input = torch.randn(size.D, size.H)

    def call() -> None:
        torch.mm(input, w_input, out=drive)
        for _ in range(2 * size.T):  # W h forward, W^T dz backward
            torch.mm(h, w, out=out)
        torch.mm(rows.t(), drive, out=grad_h)
        torch.mm(rows.t(), input, out=grad_x)

    return call


def contestants(size: Size) -> dict[str, Callable[[], None]]:
    """Every contestant that is installed, ready to be called at this size."""
    input, gradient = torch.randn(size.T, size.B, size.D), torch.randn(size.T, size.B, size.H)

    def engram(kernel: str = "auto", **options: Any) -> Callable[[], None]:
        return training_step(RNN(size.D, size.H, **options), input, gradient, kernel)

    def other(layer: nn.Module) -> Callable[[], None]:
        return training_step(layer, input, gradient)

    found = {
        "engram": engram(),
        "engram-modrelu": engram(activation="modrelu"),
        "engram-exponential": engram(activation="modrelu", map="exponential"),
        "engram-cayley": engram(activation="modrelu", map="cayley"),
        "engram-uncompiled": engram("torch"),
        "engram-modrelu-uncompiled": engram("torch", activation="modrelu"),
        "ExpRNN": other(ExpRNN(size.D, size.H)),
        "ScoRNN": other(ScoRNN(size.D, size.H)),
        "NonNormalRNN": other(NonNormalRNN(size.D, size.H)),
        "torch.nn.RNN": other(nn.RNN(size.D, size.H)),
        "torch.nn.LSTM": other(nn.LSTM(size.D, size.H)),
        "python-loop": other(LoopRNN(size.D, size.H)),
        "python-loop-modrelu": other(LoopRNN(size.D, size.H, "modrelu")),
        "floor": floor(size),
    }
    if importlib.util.find_spec("geotorch"):
        found["geotorch"] = other(GeotorchRNN(size.D, size.H))
    if importlib.util.find_spec("torchrecurrent"):
        peer = importlib.import_module("torchrecurrent").AntisymmetricRNN  # its plainest cell: one gate, tanh
        found["torchrecurrent"] = other(peer(size.D, size.H))
    return found
