"""Antisymmetric matrices with a little diffusion: every eigenvalue has the same real part."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError, check_number
from engram.maps._map import Map, require_real
from engram.maps._skew import skew, skew_entries


class Antisymmetric(Map):
    """W - W^T - gamma I of a strictly upper triangular W: every eigenvalue has the real part -gamma.

    Args:
        size (int): N, for matrices ``(N, N)``.
        gamma (float): the diffusion, at least 0. Default: 0.1.
        deviation (float): sigma_w, at least 0; the entries of W are initially N(0, sigma_w^2 / N). Default: 1.0.

    Source: Chang et al. 2019.
    """

    promise = "antisymmetric but for -gamma on the diagonal"
    equation = "W = X - X^T - gamma I, X strictly upper triangular"
    count = "N(N-1)/2"
    build_cost = "N^2"
    takes_half = True
    angles = slice(0)
    source = "Chang et al. 2019 (AntisymmetricRNN)"

    def __init__(self, size: int, gamma: float = 0.1, deviation: float = 1.0) -> None:
        super().__init__(size)
        self.gamma, self.deviation = _at_least_zero("gamma", gamma), _at_least_zero("deviation", deviation)

    def forward(self, entries: Tensor) -> Tensor:  # type: ignore[override]
        return skew(entries, self.size) - self._diffusion(entries)

    def _diffusion(self, matrix: Tensor) -> Tensor:
        return self.gamma * torch.eye(self.size, dtype=matrix.dtype, device=matrix.device)

    def free(self, matrix: Tensor) -> Tensor:
        return skew_entries(matrix + self._diffusion(matrix))

    def distance(self, matrix: Tensor) -> float:
        require_real(self, matrix)
        even = matrix + self._diffusion(matrix)
        return float((even + even.mT).abs().max())

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """N(0, sigma_w^2 / N)."""
        above = self.size * (self.size - 1) // 2
        normal = torch.randn(above, generator=generator, dtype=torch.float64)
        return (normal * (self.deviation / math.sqrt(self.size)),)

    def extra_repr(self) -> str:
        return f"{self.size}, gamma={self.gamma}"


def _at_least_zero(name: str, value: float) -> float:
    if not 0 <= check_number(name, value) < math.inf:
        raise OptionError(f"{name} must be at least 0 and finite, got {value}")
    return value
