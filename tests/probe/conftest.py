"""Linear networks, of which everything is known."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import engram

Linear = Callable[[Tensor, Tensor], engram.nn.RNN]


def _linear(matrix: Tensor, inputs: Tensor) -> engram.nn.RNN:
    layer = engram.nn.RNN(inputs.shape[1], len(matrix), activation="identity", bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.cells[0].weight_hh.copy_(matrix)
        layer.cells[0].weight_ih.copy_(inputs)
    return layer


@pytest.fixture
def linear() -> Linear:
    """h_t = W h_{t-1} + U x_t, of W and U."""
    return _linear


@pytest.fixture
def delay_line() -> Callable[[int], engram.nn.RNN]:
    """N units that hold the last N inputs."""
    return lambda size: _linear(torch.diag(torch.ones(size - 1), -1), torch.eye(size)[:, :1])
