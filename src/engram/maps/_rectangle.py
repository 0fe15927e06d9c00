"""Orthonormal columns or rows: the part of a square orthogonal matrix that a rectangular weight has room for."""

import torch
from torch import Tensor

from engram.maps._map import FreeParameters, Map
from engram.maps._polar import orthogonality_error


class Rectangle(Map):
    """W = Q[:rows, :columns] of a square orthogonal Q under another map.

    A tall W has orthonormal columns (W^T W = I), a wide one orthonormal rows (W W^T = I). Free parameters: those of Q,
    of size max(rows, columns).

    Args:
        map: the map of Q, a :class:`Map` to orthogonal (or unitary) matrices.
        rows: of W, an int.
        columns: of W, an int; the larger of both is ``map.size``.
    """

    equation = "W = Q[:rows, :columns], Q^* Q = I"
    promise = "of orthonormal columns (rows if it is wide)"
    source = "the first columns or rows of a square orthogonal matrix"

    def __init__(self, map: Map, rows: int, columns: int) -> None:
        super().__init__(map.size)
        self.map, self.rows, self.columns = map, rows, columns
        self.takes_half = map.takes_half  # type: ignore[misc] # of this one

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def has_inverse(self) -> bool:
        return self.map.has_inverse

    def forward(self, *free: Tensor) -> Tensor:
        return self.map.forward(*free)[: self.rows, : self.columns]

    def free(self, matrix: Tensor) -> FreeParameters:
        square = _completed(matrix)
        if not self.map.contains(square):  # of either determinant: turn a column (row) that W does not see
            side = square if self.rows > self.columns else square.mT
            side[:, -1] *= -1
        return self.map.free(square)

    def distance(self, matrix: Tensor) -> float:
        return orthogonality_error(matrix if self.rows >= self.columns else matrix.mT)

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """As the map of Q samples its own."""
        return self.map.sample_free(generator, complex)

    def operate(self, x: Tensor, *free: Tensor) -> Tensor:
        """W x for every row of x ``(..., columns)``."""
        w = self.forward(*free)
        return x.to(w.dtype) @ w.mT

    def after_step(self, *free: Tensor) -> None:
        self.map.after_step(*free)

    def extra_repr(self) -> str:
        return f"rows={self.rows}, columns={self.columns}"


def _completed(matrix: Tensor) -> Tensor:
    """A square orthogonal matrix whose first columns (rows) are those of this one."""
    if matrix.shape[0] < matrix.shape[1]:
        return _completed(matrix.mT).mT
    rest = torch.linalg.qr(matrix, mode="complete").Q[:, matrix.shape[1] :]
    return torch.cat([matrix, rest], 1)
