"""Products of Householder reflections."""

import torch
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.maps._map import Map, require_real


class Householder(Map):
    """W = H_N(u_N) H_{N-1}(u_{N-1}) ... H_{N-m+1}(u_{N-m+1}),  H_k(u) = diag(I_{N-k}, I_k - 2 u u^T / |u|^2).

    Free parameters: u_N .. u_{N-m+1} one after the other, ``m(2N-m+1)/2`` numbers. det W = (-1)^m for m < N; at
    m = N the last reflection is a fixed sign, and all of O(N) is reached.

    Compact form: W = I - Y S^-1 Y^T with the unit vectors as columns of Y and S = I/2 + striu(Y^T Y), so a vector
    costs O(mN) and the matrix O(mN^2). Source: Mhammedi et al. 2017 (oRNN), spec/spectral.md 4.7.

    Args:
        size: N.
        reflections: m, from 1 to N; None is N.
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
        """W x for every row of x ``(..., N)``, in O(mN) a row."""
        y, s = self._compact(free)
        x = self._signed(x) if self.reflections == self.size else x
        return x - torch.linalg.solve_triangular(s, (x @ y).mT, upper=True).mT @ y.mT

    def adjoint(self, x: Tensor, free: Tensor) -> Tensor:
        """W^T x for every row of x ``(..., N)``, in O(mN) a row."""
        y, s = self._compact(free)
        x = x - torch.linalg.solve_triangular(s.mT, (x @ y).mT, upper=False).mT @ y.mT
        return self._signed(x) if self.reflections == self.size else x

    def free(self, matrix: Tensor) -> Tensor:
        vectors, rest = self._peel(matrix)
        if self.reflections == self.size:
            self.sign = rest[-1, -1].sign()
        return torch.cat(vectors)

    def _peel(self, matrix: Tensor) -> tuple[list[Tensor], Tensor]:
        """The vectors that turn column after column into a unit vector, and what is left of the matrix."""
        rest, n = matrix.detach().double().clone(), self.size
        vectors: list[Tensor] = []
        for j in range(self.reflections):
            u = rest[j:, j].clone()
            u[0] -= 1
            if j == n - 1:
                return [*vectors, torch.ones_like(u)], rest
            if float(u.norm()) < 10 * torch.finfo(u.dtype).eps:  # a unit vector already: leave it alone
                u = torch.zeros_like(u)
                u[-1] = 1
            rest[j:] -= torch.outer(u, u @ rest[j:]) * (2 / u.dot(u))
            vectors.append(u)
        return vectors, rest

    def distance(self, matrix: Tensor) -> float:
        """How far the matrix is from such a product: what is left after m reflections should be the identity."""
        require_real(self, matrix)
        rest = self._peel(matrix)[1]
        if self.reflections == self.size:
            rest = rest.clone()
            rest[-1, -1] = rest[-1, -1].abs()
        eye = torch.eye(self.size, dtype=rest.dtype, device=rest.device)
        return float((rest - eye).abs().max().nan_to_num(torch.inf))

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """Gaussian vectors: uniform on one component of O(N) at m = N."""
        n, m = self.size, self.reflections
        return (torch.randn(m * (2 * n - m + 1) // 2, generator=generator, dtype=torch.float64),)

    def extra_repr(self) -> str:
        return f"{self.size}, reflections={self.reflections}"
