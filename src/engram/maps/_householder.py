"""Products of Householder reflections."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.maps._map import Map, require_real
from engram.maps._polar import orthogonality_error


class Householder(Map):
    """W = H_N(u_N) H_{N-1}(u_{N-1}) ... H_{N-m+1}(u_{N-m+1}),  H_k(u) = diag(I_{N-k}, I_k - 2 u u^T / |u|^2).

    Free parameters: u_N .. u_{N-m+1} one after the other, ``m(2N-m+1)/2`` numbers. det W = (-1)^m for m < N; at
    m = N the last reflection is a fixed sign, and all of O(N) is reached.

    Compact form: W = I - Y S^-1 Y^T with the unit vectors as columns of Y and S = I/2 + striu(Y^T Y), so a vector
    costs O(mN) and the matrix O(mN^2).

    Args:
        size (int): N, for matrices ``(N, N)``.
        reflections (int or None): m, from 1 to N. Default: None, which is N.

    Source: Mhammedi et al. 2017 (oRNN); also Kerg (2022), Appendix D.3.
    """

    promise = "orthogonal (W^T W = I), a product of m reflections"
    equation = "W = H_N(u_N) ... H_{N-m+1}(u_{N-m+1})"
    count = "m(2N-m+1)/2"
    apply_cost, build_cost = "mN", "m N^2"
    source = "Mhammedi et al. 2017 (oRNN)"
    sign: Tensor

    def __init__(self, size: int, reflections: int | None = None) -> None:
        super().__init__(size)
        self.reflections = size if reflections is None else check_size("reflections", reflections)
        if self.reflections > size:
            raise OptionError(f"reflections must be at most N = {size}, got {reflections}: N of them reach all of O(N)")
        self.register_buffer("sign", torch.ones(()))

    def _vectors(self, free: Tensor) -> Tensor:
        """Y ``(N, m)``: column j is zero above row j, of unit length."""
        n, m = self.size, self.reflections
        column, row = torch.triu_indices(m, n, device=free.device)
        y = free.new_zeros(n, m).index_put((row, column), free)
        if m == n:  # H_1 is the sign: its column reflects nothing or the last coordinate
            last = free.new_zeros(n, 1)
            last[-1] = 1
            y = torch.cat([y[:, :-1], last], 1)
        return y / torch.linalg.vector_norm(y, dim=0)

    def _compact(self, free: Tensor) -> tuple[Tensor, Tensor]:
        y = self._vectors(free)
        s = (y.mT @ y).triu(1) + 0.5 * torch.eye(y.shape[1], dtype=y.dtype, device=y.device)
        return y, s

    def forward(self, free: Tensor) -> Tensor:  # type: ignore[override]
        y, s = self._compact(free)
        w = torch.eye(self.size, dtype=y.dtype, device=y.device) - y @ torch.linalg.solve_triangular(
            s, y.mT, upper=True
        )
        return self._signed(w) if self.reflections == self.size else w

    def _signed(self, rows: Tensor) -> Tensor:
        """At m = N the formula has put -1 for H_1 on the last coordinate; put the sign that belongs there."""
        return torch.cat([rows[..., :-1], -self.sign * rows[..., -1:]], -1)

    def operate(self, x: Tensor, free: Tensor) -> Tensor:  # type: ignore[override]
        """W x for every row of x ``(..., N)``, in O(mN) per row."""
        y, s = self._compact(free)
        x = self._signed(x) if self.reflections == self.size else x
        return x - torch.linalg.solve_triangular(s, (x @ y).mT, upper=True).mT @ y.mT

    def adjoint(self, x: Tensor, free: Tensor) -> Tensor:
        """W^T x for every row of x ``(..., N)``, in O(mN) per row."""
        y, s = self._compact(free)
        x = x - torch.linalg.solve_triangular(s.mT, (x @ y).mT, upper=False).mT @ y.mT
        return self._signed(x) if self.reflections == self.size else x

    def free(self, matrix: Tensor) -> Tensor:
        """In the space R that W moves (of dimension m, the range of W - I), W is a full product of m reflections.

        R gets an orthonormal basis B whose top m x m block is lower triangular: then B z is zero above row j if z is,
        so the vectors z_j that take B^T W B apart give y_j = B z_j of the right form. Both halves are backward stable;
        taking W itself apart, column after column, is not: it divides m times by an entry of y_j.
        """
        m, w = self.reflections, matrix.detach().double()
        basis = _moved(w, m)
        vectors, last = _peel(basis.mT @ w @ basis)
        if m == self.size:
            self.sign = last
        y = (basis @ vectors).tril()
        column, row = torch.triu_indices(m, self.size, device=y.device)
        return y[row, column]

    def distance(self, matrix: Tensor) -> float:
        """From being orthogonal; for m < N also from moving at most m directions, and 2 for a wrong determinant.

        That is all it takes: an orthogonal W with rank(W - I) <= m and det W = (-1)^m is a product of this form.
        """
        require_real(self, matrix)
        w, m = matrix.detach().double(), self.reflections
        error = orthogonality_error(w)
        if m == self.size or not math.isfinite(error):
            return error
        if float(torch.linalg.det(w)) * (-1) ** m < 0:
            return max(error, 2.0)
        eye = torch.eye(self.size, dtype=w.dtype, device=w.device)
        return max(error, float(torch.linalg.svdvals(w - eye)[m]))

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """Gaussian vectors: uniform on one component of O(N) at m = N."""
        n, m = self.size, self.reflections
        return (torch.randn(m * (2 * n - m + 1) // 2, generator=generator, dtype=torch.float64),)

    def extra_repr(self) -> str:
        return f"{self.size}, reflections={self.reflections}"


def _moved(w: Tensor, m: int) -> Tensor:
    """An orthonormal basis ``(N, m)`` of the range of W - I, its top m x m block lower triangular."""
    eye = torch.eye(len(w), dtype=w.dtype, device=w.device)
    if m == len(w):
        return eye
    basis = torch.linalg.svd(w - eye).U[:, :m]
    return (basis @ torch.linalg.qr(basis[:m].mT).Q).tril()


def _peel(w: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors Z, lower triangular, whose reflections turn column after column of W into a unit vector.

    The last one is the sign that is left, also returned: a reflection of the last coordinate if it is -1. Each vector
    is w - e with e the unit vector; where they are close, its first entry by Parlett's formula, without cancellation.
    """
    rest, n = w.clone(), len(w)
    vectors = torch.eye(n, dtype=w.dtype, device=w.device)
    for j in range(n - 1):
        u = rest[j:, j].clone()
        below, length = u[1:].square().sum(), torch.linalg.vector_norm(u)
        if not below:  # a unit vector already, or its opposite
            u[0], u[-1] = (0.0, 1.0) if u[0] > 0 else (1.0, 0.0)
        else:
            u[0] = -below / (u[0] + length) if u[0] > 0 else u[0] - length
        u /= torch.linalg.vector_norm(u)
        rest[j:] -= torch.outer(u, 2 * u @ rest[j:])
        vectors[j:, j] = u
    return vectors, rest[-1, -1].sign()
