"""What relational networks share: a small perceptron at the end, and positions."""

import math

import torch
from torch import Tensor, nn

from engram.errors import check_size


class Decoder(nn.Module):
    """y = W_2 relu(W_1 x + b_1) + b_2: ``(..., D)`` to ``(..., C)``.

    W_1 is Kaiming normal, W_2 Xavier normal, biases are 0: the initial distributions of Webb et al. 2021 (ESBN).

    Args:
        input_size: D.
        hidden_size: H, the units in between.
        output_size: C.
    """

    def __init__(self, input_size: int, hidden_size: int, output_size: int) -> None:
        super().__init__()
        self.hidden = relu_layer(input_size, check_size("hidden_size", hidden_size))
        self.answer = linear_layer(hidden_size, check_size("output_size", output_size))

    def forward(self, inputs: Tensor) -> Tensor:
        answers: Tensor = self.answer(torch.relu(self.hidden(inputs)))
        return answers


def relu_layer(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer before a ReLU: Kaiming normal weights, no initial bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


def linear_layer(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A linear layer before something else than a ReLU: Xavier normal weights, no initial bias."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_normal_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def tagged(codes: Tensor) -> Tensor:
    """Codes ``(T, B, F)`` with the number of their step, 0 to T - 1, as one more feature: ``(T, B, F + 1)``."""
    steps, batch, _ = codes.shape
    tags = torch.arange(steps, dtype=codes.dtype, device=codes.device)
    return torch.cat([codes, tags[:, None, None].expand(steps, batch, 1)], -1)


def sinusoids(steps: int, size: int) -> Tensor:
    """p_(t, 2k) = sin(t / 10000^(2k / size)), p_(t, 2k + 1) = cos(the same): ``(T, F)`` in float64.

    Source: Vaswani et al. 2017, Section 3.5.
    """
    rates = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angles = torch.arange(steps)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size]
