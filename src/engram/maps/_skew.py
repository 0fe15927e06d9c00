"""Skew-symmetric and skew-Hermitian matrices, and the distributions from which they are sampled.

Every law returns the entries above the diagonal, ``N(N-1)/2`` reals, row by row.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engram.errors import unknown
from engram.maps._transforms import observed


def _places(size: int, device: torch.device) -> Tensor:
    """The places above the diagonal, row by row, in a flattened matrix."""
    row, column = torch.triu_indices(size, size, 1, device=device)
    return row * size + column


places_above = cache(_places)
"""The same, kept: not where operations are recorded."""


def fill(entries: Tensor, size: int, places: Tensor) -> Tensor:
    """X - X^* with the entries above the diagonal of X; leading axes are batches."""
    flat = entries.new_zeros(*entries.shape[:-1], size * size).index_copy(-1, places, entries)
    upper = flat.view(*entries.shape[:-1], size, size)
    return upper - upper.mH


class _Skew(torch.autograd.Function):
    """:func:`fill`, with the gradient of an entry as G_ij - conj(G_ji)."""

    @staticmethod
    def forward(entries: Tensor, size: int) -> Tensor:
        return fill(entries, size, places_above(size, entries.device))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.size = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return (grad - grad.mH).reshape(-1).index_select(0, places_above(ctx.size, grad.device)), None


def _skew(entries: Tensor, size: int) -> Tensor:
    """With a gradient of its own; in torch's operations where torch.compile, export or torch.func look inside."""
    if observed():
        return fill(entries, size, _places(size, entries.device))
    return _Skew.apply(entries, size)


def skew(entries: Tensor, size: int) -> Tensor:
    """The skew matrix A ``(N, N)``, A^* = -A, of these real entries.

    ``N(N-1)/2`` entries, those above the diagonal row by row, give a real A. ``N^2`` entries give a complex one: the
    real parts above the diagonal, the imaginary parts above the diagonal, the imaginary parts on it; this is the
    basis of u(N) of Hyland and Rätsch 2017.

    Args:
        entries: N(N-1)/2 numbers, or N^2 for a complex matrix.
        size: N.
    """
    above = size * (size - 1) // 2
    if len(entries) == above:
        return _skew(entries, size)
    real, imaginary, diagonal = entries.split([above, above, size])
    return _skew(torch.complex(real, imaginary), size) + torch.diag(torch.complex(torch.zeros_like(diagonal), diagonal))


def skew_entries(matrix: Tensor) -> Tensor:
    """The inverse of :func:`skew`."""
    upper = matrix.reshape(-1)[_places(len(matrix), matrix.device)]
    return torch.cat([upper.real, upper.imag, matrix.diagonal().imag]) if matrix.is_complex() else upper


def _blocks(angles: Tensor, size: int) -> Tensor:
    """The entries of the direct sum of 2 x 2 blocks [[0, s_j], [-s_j, 0]] (and a zero if N is odd)."""
    matrix = angles.new_zeros(size, size)
    first = torch.arange(0, size - 1, 2)
    matrix[first, first + 1] = angles
    return skew_entries(matrix)


def henaff(size: int, generator: torch.Generator | None = None) -> Tensor:
    """Blocks with angles uniform in (-pi, pi): exp(A) has eigenvalues uniform on the circle."""
    return _blocks((torch.rand(size // 2, generator=generator, dtype=torch.float64) * 2 - 1) * math.pi, size)


def cayley(size: int, generator: torch.Generator | None = None) -> Tensor:
    """Blocks with s = tan(t/2), t uniform in (0, pi/2): Cay(A) has angles uniform on the right half circle.

    Under exp they lie within 1 radian of zero and are not uniform; nnRNN and expRNN use them so all the same.
    """
    turn = torch.rand(size // 2, generator=generator, dtype=torch.float64) * (math.pi / 2)
    return _blocks(torch.tan(turn / 2), size)


def identity(size: int, generator: torch.Generator | None = None) -> Tensor:
    """A = 0: the matrix starts at the identity."""
    return torch.zeros(size * (size - 1) // 2, dtype=torch.float64)


SKEW_LAWS: dict[str, Callable[[int, torch.Generator | None], Tensor]] = {
    "henaff": henaff,
    "cayley": cayley,
    "identity": identity,
}


def haar(size: int, generator: torch.Generator | None = None, complex: bool = False) -> Tensor:
    """A matrix uniform on the orthogonal (or unitary) group, in double precision: QR with the signs of R put right.

    Args:
        size: N, of a matrix ``(N, N)``.
        generator: of random numbers. Default: None, torch's own.
        complex: a unitary matrix. Default: False.
    """
    kind = torch.complex128 if complex else torch.float64
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=kind))
    return q * r.diagonal().sgn()


def check_law(name: str) -> str:
    """Return the name of an initial law if there is one."""
    if name != "haar" and name not in SKEW_LAWS:
        raise unknown("initial law (init)", name, ["haar", *SKEW_LAWS])
    return name


def delay_matrix(size: int, alpha: float = 1.0, beta: float = 0.0, d: float = 0.0) -> Tensor:
    """Theta(alpha, beta, d): d on the diagonal, alpha below it, beta further below (Kerg 2022, Eq. 3.4.2).

    Args:
        size: N, of a matrix ``(N, N)``.
        alpha: the entries right below the diagonal. Default: 1.0.
        beta: those further below. Default: 0.0.
        d: those on the diagonal. Default: 0.0.

    >>> delay_matrix(3, alpha=1.0, beta=0.5)
    tensor([[0.0000, 0.0000, 0.0000],
            [1.0000, 0.0000, 0.0000],
            [0.5000, 1.0000, 0.0000]])
    """
    lower = torch.full((size, size), float(beta)).tril(-2)
    return lower + torch.diag(torch.full((size - 1,), float(alpha)), -1) + d * torch.eye(size)


def henaff_copy(size: int, period: int, generator: torch.Generator | None = None) -> Tensor:
    """Henaff's matrix for a copying problem: rotations by 2 pi l / period, l uniform in 1..period; V^period = I.

    Args:
        size: N, of a matrix ``(N, N)``.
        period: the number of steps after which a state comes back.
        generator: of random numbers. Default: None, torch's own.
    """
    turns = torch.randint(1, period + 1, (size // 2,), generator=generator)
    angle = 2 * math.pi * turns.double() / period
    matrix = torch.eye(size, dtype=torch.float64)
    first = torch.arange(0, size - 1, 2)
    matrix[first, first] = matrix[first + 1, first + 1] = angle.cos()
    matrix[first, first + 1], matrix[first + 1, first] = angle.sin(), -angle.sin()
    return matrix
