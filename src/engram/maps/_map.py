"""The protocol of a map: five verbs, on top of ``torch.nn.utils.parametrize``."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from engram.errors import DTypeError, ManifoldError, ShapeError, check_size


class Map(nn.Module, ABC):
    """A square matrix with a promise, computed from free parameters.

    ``register_parametrization(module, "weight", SomeMap(n))`` makes ``module.weight`` keep the promise however the
    free parameters are trained. Any module with a square weight will do; engram's layers take a map by name.

    Args:
        size: N, for matrices ``(N, N)``.
    """

    promise: ClassVar[str]
    """What holds for every matrix of this map, in one line."""
    equation: ClassVar[str]

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = check_size("size of a map", size)

    @abstractmethod
    def forward(self, free: Tensor) -> Tensor:
        """The matrix ``(N, N)`` of the free parameters."""

    @abstractmethod
    def free(self, matrix: Tensor) -> Tensor:
        """Free parameters that give this matrix, which is known to keep the promise."""

    @abstractmethod
    def distance(self, matrix: Tensor) -> float:
        """How far a matrix is from keeping the promise; 0 if it does."""

    @abstractmethod
    def sample(
        self,
        generator: torch.Generator | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A random matrix ``(N, N)`` that keeps the promise."""

    def contains(self, matrix: Tensor, eps: float | None = None) -> bool:
        """Whether a matrix keeps the promise to within ``eps`` (1e-4 in float32 and below, 1e-10 in float64)."""
        if eps is None:
            eps = 1e-10 if matrix.dtype in (torch.float64, torch.complex128) else 1e-4
        return matrix.shape == (self.size, self.size) and self.distance(matrix) <= eps

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """Free parameters for a matrix that is assigned: ``layer.weight = matrix``. Refused outside the promise."""
        if matrix.shape != (self.size, self.size):
            raise ShapeError(
                f"{type(self).__name__} is a map to {self.size} x {self.size} matrices, got {tuple(matrix.shape)}"
            )
        if not self.contains(matrix):
            raise ManifoldError(
                f"a matrix under {type(self).__name__} must be {self.promise}; the one assigned is "
                f"{self.distance(matrix):.3g} away from that. Assign map.sample(), or project it first"
            )
        return self.free(matrix)

    def extra_repr(self) -> str:
        return str(self.size)


def require_real(map: Map, matrix: Tensor) -> None:
    """Refuse a complex matrix where the map is a real one."""
    if matrix.is_complex():
        raise DTypeError(
            f"{type(map).__name__} is a map to real matrices, got {matrix.dtype}. Use a real dtype or map='free'"
        )
