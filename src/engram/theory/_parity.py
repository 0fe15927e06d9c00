"""Parity by one layer whose activation is outside the recurrence: counterexamples to one reading of a theorem.

Lizaire et al. (2026), Theorem 5 (Section 3.3): some function of a 2RNN is computed by no network of fixed depth and
width whose activation is only between the layers, however complex; parity is named. These two networks compute parity.
"""

import math

import torch
from torch import Tensor, nn

from engram.errors import check_size
from engram.nn import DepthRNN, LinearRNN


def bent(u: Tensor) -> Tensor:
    """phi(u) = cos(pi u) + 4 u: phi' >= 4 - pi > 0, so it is a homeomorphism, as the proof of Theorem 5 assumes."""
    return torch.cos(math.pi * u) + 4 * u


class DepthOnlyParity(nn.Module):
    """y_t = x_1 * ... * x_t of inputs +1 and -1, for sequences of any length, by one layer with two units per channel.

    The state is linear: h_1 = the number of -1 so far, h_2 = 2 h_1 (V = I, U = (-1/2, -1), b = (1/2, 1)). Then
    phi(h_1) - phi(h_2)/2 + 1/2 = cos(pi h_1) = the parity, since cos(pi h_2) = 1 and the linear parts cancel.

    Args:
        channels: the size of the input; parities are computed for each channel by itself.

    Inputs: ``(T, B, channels)``, float64. Outputs: the same shape.

    Example::

        >>> network = DepthOnlyParity()
        >>> network(torch.tensor([[1.0], [-1.0], [-1.0], [-1.0]], dtype=torch.float64)).round().flatten().tolist()
        [1.0, -1.0, 1.0, -1.0]
    """

    @torch.no_grad()
    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.layer = LinearRNN(channels, 2 * channels, dtype=torch.float64)
        self.readout = nn.Linear(2 * channels, channels, dtype=torch.float64)
        cell, eye = self.layer.cells[0], torch.eye(channels, dtype=torch.float64)
        cell.weight_hh.copy_(torch.eye(2 * channels))
        cell.weight_ih.copy_(torch.cat([-eye / 2, -eye]))
        cell.bias.copy_(torch.cat([torch.full((channels,), 0.5), torch.ones(channels)]))
        self.readout.weight.copy_(torch.cat([eye, -eye / 2], 1))
        self.readout.bias.fill_(0.5)

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self.readout(bent(self.layer(input)[0]))
        return result


@torch.no_grad()
def tanh_parity(steps: int, channels: int = 1) -> tuple[DepthRNN, nn.Linear]:
    """Parity for at most T steps by one layer with T units per channel, tanh outside the recurrence, and a readout.

    tanh of unit i goes from -1 to 1 when the i-th input -1 has come: h_i = 40 (count - i + 1/2), V = I, initial state
    -40 (i - 1/2). y = 1 + sum_i (-1)^i (tanh(h_i) + 1): exact in double precision, where tanh(20) is 1.

    Args:
        steps: T, the longest sequence.
        channels: the size of the input.
    """
    check_size("steps", steps)
    check_size("channels", channels)
    layer = DepthRNN(channels, steps * channels, initial_state="trained", dtype=torch.float64)
    readout = nn.Linear(steps * channels, channels, dtype=torch.float64)
    cell = layer.cells[0]
    eye = torch.eye(channels, dtype=torch.float64)
    turns = torch.arange(1, steps + 1, dtype=torch.float64) - 0.5
    signs = torch.tensor([(-1.0) ** i for i in range(1, steps + 1)], dtype=torch.float64)
    cell.weight_hh.copy_(torch.eye(steps * channels))
    cell.weight_ih.copy_(-20 * eye.repeat_interleave(steps, 0))
    cell.bias.fill_(20)
    cell.start.copy_(-40 * turns.repeat(channels))
    readout.weight.copy_(torch.kron(eye, signs[None]))
    readout.bias.fill_(1 + signs.sum())
    return layer, readout
