"""No promise at all."""

import math

import torch
from torch import Tensor

from engram.maps._map import Map


class Free(Map):
    """Every matrix: W = X. Stands in wherever a map is asked for and none is wanted."""

    promise = "any matrix"
    equation = "W = X"

    def forward(self, free: Tensor) -> Tensor:
        return free

    def free(self, matrix: Tensor) -> Tensor:
        return matrix

    def distance(self, matrix: Tensor) -> float:
        return 0.0

    def sample(
        self,
        generator: torch.Generator | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Uniform in [-1/sqrt(N), 1/sqrt(N)], as in torch.nn.RNN."""
        bound = 1 / math.sqrt(self.size)
        empty = torch.empty(self.size, self.size, device=device, dtype=dtype)
        real = torch.view_as_real(empty) if empty.is_complex() else empty
        real.uniform_(-bound, bound, generator=generator)
        return empty
