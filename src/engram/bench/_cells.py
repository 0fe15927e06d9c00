"""The cells that race in ``engram bench cells``: the built-in ones that multiply by their state, and one of a user."""

import torch
from torch import Tensor

from engram.bench._size import Kind
from engram.nn import RAC, Cell, Recurrent


class LeakyCell(Cell):
    """A cell as a user writes it: that of ``docs/cells.md``."""

    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LeakyRNN(Recurrent):
    """A layer of :class:`LeakyCell`."""

    cell = LeakyCell


@torch.no_grad()
def steady_rac(input_size: int, hidden_size: int) -> RAC:
    """A circuit whose gates are near 1: else its products would vanish into denormal numbers, which are slow."""
    layer = RAC(input_size, hidden_size, bias=True)
    layer.cells[0].weight_ih.mul_(1e-3)
    layer.cells[0].bias.fill_(1.0)
    return layer


CELLS: dict[str, Kind] = {
    "RNN": ("engram.nn:RNN", {}),
    "LSTM": ("engram.nn:LSTM", {}),
    "GRU": ("engram.nn:GRU", {}),
    "LeakyRNN": ("engram.bench._cells:LeakyRNN", {}),
    "MIRNN": ("engram.nn:MIRNN", {}),
    "RAC": ("engram.bench._cells:steady_rac", {}),
    "CPRNN": ("engram.nn:CPRNN", {}),
    "SecondOrderRNN": ("engram.nn:SecondOrderRNN", {}),
    "GORU": ("engram.nn:GORU", {}),
    "HenaffRNN": ("engram.nn:HenaffRNN", {}),
    "AntisymmetricRNN": ("engram.nn:AntisymmetricRNN", {}),
    "CoRNN": ("engram.nn:CoRNN", {}),
    "LEM": ("engram.nn:LEM", {}),
}
"""Networks that only give RNN's cell another matrix (ExpRNN, ...) race in ``engram bench layers``. The bilinear ones
have no activation: over hundreds of steps their states vanish or overflow, and the time is that of denormal numbers."""

PEERS: dict[str, tuple[str, Kind]] = {
    "torch.nn.RNN": ("RNN", ("torch.nn:RNN", {})),
    "torch.nn.LSTM": ("LSTM", ("torch.nn:LSTM", {})),
    "torch.nn.GRU": ("GRU", ("torch.nn:GRU", {})),
    "torchrecurrent AntisymmetricRNN": ("AntisymmetricRNN", ("torchrecurrent:AntisymmetricRNN", {})),
    "torchrecurrent LEM": ("LEM", ("torchrecurrent:LEM", {})),
}
"""Layers of other packages, and our cell that computes the same, with the same products."""
