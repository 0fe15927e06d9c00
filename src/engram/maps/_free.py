"""Matrices without any constraint."""

import math

import torch
from torch import Tensor

from engram.maps._map import Map


class Free(Map):
    """Any matrix, W = X: for a weight that shall train freely where a map is expected.

    Args:
        size (int): N, for matrices ``(N, N)``.
    """

    promise = "any matrix"
    equation = "W = X"
    count = "N^2"
    build_cost = "-"
    takes_half = True
    angles = slice(0)
    source = "torch.nn.RNN"

    def forward(self, free: Tensor) -> Tensor:  # type: ignore[override]
        return free

    def free(self, matrix: Tensor) -> Tensor:
        return matrix

    def distance(self, matrix: Tensor) -> float:
        return 0.0

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """Uniform in [-1/sqrt(N), 1/sqrt(N)], as in torch.nn.RNN; real and imaginary part if complex."""
        uniform = torch.rand(2, self.size, self.size, generator=generator, dtype=torch.float64) * 2 - 1
        real, imaginary = uniform / math.sqrt(self.size)
        return (torch.complex(real, imaginary) if complex else real,)
