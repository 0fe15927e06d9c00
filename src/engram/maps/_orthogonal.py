"""Orthogonal matrices as a base point times a function of a skew-symmetric matrix."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from engram.maps._map import Map, require_real


def skew(entries: Tensor, size: int) -> Tensor:
    """The skew-symmetric A ``(N, N)`` with these ``N(N-1)/2`` entries above the diagonal, row by row."""
    row, column = torch.triu_indices(size, size, 1, device=entries.device)
    upper = entries.new_zeros(size, size).index_put((row, column), entries)
    return upper - upper.mT


def orthogonality_error(matrix: Tensor) -> float:
    """The largest entry of |W^* W - I|."""
    eye = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    error = float((matrix.mH @ matrix - eye).abs().max())
    return error if math.isfinite(error) else math.inf


class Orthogonal(Map):
    """W = Q f(A): Q a fixed orthogonal base point, A skew-symmetric, f(A) orthogonal with f(0) = I.

    Free parameters: the ``N(N-1)/2`` entries of A above the diagonal. Assigning a matrix moves the base point there
    and sets A = 0, so every orthogonal matrix can be assigned, of either determinant; training then moves within
    its component. Source: Lezcano-Casado and Martinez-Rubio 2019, spec/spectral.md 4.12.
    """

    promise = "orthogonal (W^T W = I)"
    base: Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("base", torch.eye(size))

    @abstractmethod
    def retract(self, skew: Tensor) -> Tensor:
        """f(A)."""

    def forward(self, free: Tensor) -> Tensor:
        return self.base @ self.retract(skew(free, self.size))

    def free(self, matrix: Tensor) -> Tensor:
        require_real(self, matrix)
        self.base = matrix.detach().clone()
        return matrix.new_zeros(self.size * (self.size - 1) // 2)

    def distance(self, matrix: Tensor) -> float:
        return orthogonality_error(matrix.detach())

    def sample(
        self,
        generator: torch.Generator | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Uniform on the orthogonal group (Haar): torch.nn.init.orthogonal_."""
        empty = torch.empty(self.size, self.size, device=device, dtype=dtype)
        require_real(self, empty)
        torch.nn.init.orthogonal_(empty, generator=generator)
        return empty


class Exponential(Orthogonal):
    """W = Q exp(A), A skew-symmetric. The exponential is onto: all of SO(N) is reached (expRNN).

    Cost: O(N^3) a build, by torch.linalg.matrix_exp.
    """

    equation = "W = Q exp(A), A^T = -A"

    def retract(self, skew: Tensor) -> Tensor:
        result: Tensor = torch.linalg.matrix_exp(skew)
        return result


class Cayley(Orthogonal):
    """W = Q (I + A)^-1 (I - A), A skew-symmetric. Cheaper than the exponential; misses a set of measure zero.

    Cost: O(N^3) a build, one linear solve. Source: spec/spectral.md, conventions (no factor 1/2).
    """

    equation = "W = Q (I + A)^-1 (I - A), A^T = -A"

    def retract(self, skew: Tensor) -> Tensor:
        eye = torch.eye(self.size, device=skew.device, dtype=skew.dtype)
        result: Tensor = torch.linalg.solve(eye + skew, eye - skew)
        return result
