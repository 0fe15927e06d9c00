"""The Cayley transform times a diagonal of signs or phases."""

import math

import torch
from torch import Tensor

from engram.errors import DTypeError, ManifoldError, OptionError, check_size
from engram.maps._cayley import cayley_transform
from engram.maps._map import Map
from engram.maps._polar import orthogonality_error
from engram.maps._skew import cayley, skew, skew_entries

SMALLEST = 1e-6
"""Eigenvalues of W D^* nearer than this to -1 count as -1: A would be above 2e6."""


class ScaledCayley(Map):
    """W = Cay(A) D,  Cay(A) = (I + A)^-1 (I - A).

    Real (scoRNN): A skew-symmetric, D = diag(1, .., 1, -1, .., -1) fixed with rho entries -1, the last ones; free
    parameters: ``N(N-1)/2``. Every orthogonal matrix is of this form for some arrangement of signs; with the signs
    fixed, those with det W = (-1)^rho are, but for a set of measure zero.

    Complex (scuRNN): A skew-Hermitian (``N^2`` reals), D = diag(e^{i theta}) trained (N more).

    Args:
        size (int): N, for matrices ``(N, N)``.
        rho (int or None): how many entries of D are -1, from 0 to N; for real matrices only. Default: None, which is
            N // 2.
        complex (bool): unitary, with learned phases. Default: False.

    Source: Helfrich et al. 2018 (scoRNN); complex, Maduranga et al. 2019 (scuRNN); also Kerg (2022), Appendix D.3.
    """

    promise = "orthogonal (unitary if complex), without -1 among the eigenvalues of W D^*"
    equation = "W = (I + A)^-1 (I - A) D"
    count = "N(N-1)/2 real, N^2 + N complex"
    apply_cost, build_cost = "N^2", "N^3"
    source = "Helfrich et al. 2018 (scoRNN), Maduranga et al. 2019 (scuRNN)"
    signs: Tensor

    def __init__(self, size: int, rho: int | None = None, complex: bool = False) -> None:
        super().__init__(size)
        if complex and rho is not None:
            raise OptionError(f"rho counts the signs of the real form; the complex form learns phases. Got rho={rho}")
        self.rho = size // 2 if rho is None else check_size("rho", rho, least=0)
        self.complex = complex
        if self.rho > size:
            raise OptionError(f"rho must be at most N = {size}, the number of entries that are -1; got {rho}")
        signs = torch.where(torch.arange(size) < size - self.rho, 1.0, -1.0)
        self.register_buffer("signs", signs, persistent=False)

    def forward(self, entries: Tensor, phases: Tensor | None = None) -> Tensor:  # type: ignore[override]
        scale = self.signs.to(entries.dtype) if phases is None else torch.polar(torch.ones_like(phases), phases)
        return cayley_transform(skew(entries, self.size)) * scale

    def free(self, matrix: Tensor) -> tuple[Tensor, ...]:
        if not self.complex:
            return (skew_entries(_inverse(matrix * self.signs.to(matrix.dtype))),)
        # One phase for all, chosen to turn the widest gap of the spectrum onto -1.
        angles = torch.linalg.eigvals(matrix).angle().sort().values
        gaps = torch.diff(angles, append=angles[:1] + 2 * math.pi)
        phase = angles[gaps.argmax()] + gaps.max() / 2 - math.pi
        entries = skew_entries(_inverse(matrix * torch.polar(torch.ones_like(phase), -phase)))
        return entries, phase.expand(self.size).clone()

    def distance(self, matrix: Tensor) -> float:
        if matrix.is_complex() != self.complex:
            raise DTypeError(
                f"ScaledCayley(complex={self.complex}) got a matrix of {matrix.dtype}. Set complex to match"
            )
        error = orthogonality_error(matrix.detach())
        if self.complex or not math.isfinite(error):
            return error
        turned_over = float(torch.linalg.det(matrix.detach())) * (-1) ** self.rho < 0  # det Cay(A) = 1
        return max(error, 2.0) if turned_over else error

    def contains(self, matrix: Tensor, eps: float | None = None) -> bool:
        """Also that -1 is no eigenvalue of W D^*, which is at no distance from what can be reached."""
        return super().contains(matrix, eps) and (self.complex or _gap(matrix * self.signs.to(matrix)) >= SMALLEST)

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """The Cayley law: angles of Cay(A) uniform on the right half circle; phases uniform in (0, 2 pi)."""
        entries = cayley(self.size, generator)
        if not self.complex:
            return (entries,)
        phases = torch.rand(self.size, generator=generator, dtype=torch.float64) * 2 * math.pi
        return torch.cat([entries, entries.new_zeros(len(entries) + self.size)]), phases

    def extra_repr(self) -> str:
        return f"{self.size}, complex=True" if self.complex else f"{self.size}, rho={self.rho}"


def _gap(matrix: Tensor) -> float:
    """How far the eigenvalues of a unitary matrix are from -1."""
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return float(torch.linalg.svdvals(eye + matrix.detach()).min())


def _inverse(matrix: Tensor) -> Tensor:
    """A with Cay(A) = matrix: the transform is its own inverse, where -1 is no eigenvalue."""
    gap = _gap(matrix)
    if gap < SMALLEST:
        raise ManifoldError(
            f"a matrix under ScaledCayley must not have -1 among the eigenvalues of W D^*; this one is {gap:.3g} "
            "away from that. Another rho (of the parity of det W) may do, or the map 'exponential'"
        )
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    found: Tensor = torch.linalg.solve(eye + matrix, eye - matrix)
    return (found - found.mH) / 2
