"""Pseudospectrum: where a small change of W could put an eigenvalue.

    z is an eigenvalue of W + E for some |E|_2 <= eps   <=>   sigma_min(z I - W) <= eps.

For a normal W that is the distance to the nearest eigenvalue; a non-normal W has it much smaller, and grows before it
decays: max_t |W^t| >= (|z| - 1) / sigma_min(z I - W) for every |z| > 1 (Kreiss; see Trefethen and Embree 2005).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import schur
from scipy.linalg.blas import ztrsv
from scipy.linalg.lapack import dsterf  # eigenvalues of a tridiagonal matrix, without the checks around it
from torch import Tensor

from engram.errors import check_between, check_size
from engram.figures import SKY
from engram.probe._arrays import square_matrix
from engram.probe._json import as_json

ITERATIONS = 80
"""Of Lanczos, at most."""
RIGHT = 1e-4
"""Relative, of each singular value: enough for a figure."""
SETTLED = 1e-6
"""Lanczos stops at a relative change below this."""


@dataclass(frozen=True)
class Pseudospectrum:
    """What :func:`pseudospectrum` found."""

    real: np.ndarray
    """(G,), the real parts of the grid."""
    imag: np.ndarray
    """(G,), the imaginary parts."""
    smallest: np.ndarray
    """(G, G): sigma_min(z I - W) at imag[row], real[column]."""

    @property
    def kreiss(self) -> float:
        """A lower bound of max_t |W^t|: the largest (|z| - 1) / sigma_min over the grid, at least 1."""
        away = np.abs(self.real + 1j * self.imag[:, None]) - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(away > 0, away / self.smallest, 1).max(initial=1))

    def to_dict(self) -> dict[str, Any]:
        return {**as_json(self), "kreiss": as_json(self.kreiss)}

    def plot(self, axes: Any) -> None:
        """Contours at 10^-1 (outermost), 10^-2, ..., down to 10^-8."""
        height = np.log10(np.maximum(self.smallest, 1e-16))
        levels = np.arange(max(-8, np.floor(height.min())), 0)
        if len(levels):
            axes.contour(self.real, self.imag, height, levels=levels, colors=[SKY], linestyles="-", linewidths=0.8)


def pseudospectrum(W: Tensor | np.ndarray, *, points: int = 48, reach: float | None = None) -> Pseudospectrum:
    """sigma_min(z I - W) on a square grid of z.

    One Schur form W = P T P*, then at each z inverse Lanczos with triangular solves of N^2. For a real W the lower half
    plane mirrors the upper one. Where the departure from normality is small against the distance to the nearest
    eigenvalue, that distance is taken.

    Args:
        W: (N, N), real or complex.
        points: on a side of the grid.
        reach: |Re z| and |Im z| up to this. Default: 1.25 max(1, spectral radius).
    """
    matrix = square_matrix(W)
    points = check_size("points", points, least=2)
    form = schur(matrix, output="complex")[0]
    if reach is None:
        reach = 1.25 * max(1.0, float(np.abs(form.diagonal()).max()))
    line = np.linspace(-1, 1, points) * check_between("reach", reach, 0, float("inf"))
    grid = line + 1j * line[:, None]
    smallest = np.abs(grid[..., None] - form.diagonal()).min(-1)  # right up to d(W), the departure from normality
    far = smallest > np.linalg.norm(np.triu(form, 1)) / RIGHT
    mirrored = not np.iscomplexobj(matrix)
    shifted = np.asfortranarray(-form)
    # Random, not what the neighbour found: near a normal W that would be one mode, blind to all others.
    start = np.random.default_rng(0).normal(size=(2, len(matrix)))
    first = (start[0] + 1j * start[1]) / np.linalg.norm(start)
    for row in range((points + 1) // 2 if mirrored else points):
        for column in np.flatnonzero(~far[row]):
            np.fill_diagonal(shifted, grid[row, column] - form.diagonal())
            smallest[row, column] = _smallest(shifted, first)
    if mirrored:
        smallest[(points + 1) // 2 :] = smallest[: points // 2][::-1]
    return Pseudospectrum(line, line.copy(), smallest)


def _smallest(triangle: np.ndarray, first: np.ndarray) -> float:
    """sigma_min of an upper triangular matrix, by Lanczos on (A* A)^-1; what is too small for float64 is 0."""
    alphas: list[float] = []
    betas: list[float] = []
    before, now, found = np.zeros_like(first), first, 0.0
    with np.errstate(all="ignore"):
        for _ in range(ITERATIONS):
            following = ztrsv(triangle, ztrsv(triangle, now, trans=2))
            alphas.append(float(np.vdot(now, following).real))
            if not np.isfinite(following).all() or alphas[-1] <= 0:
                return 0.0
            following = following - alphas[-1] * now - (betas[-1] * before if betas else 0)
            last, found = found, float(dsterf(alphas, betas)[0][-1]) if betas else alphas[0]
            beta = float(np.linalg.norm(following))
            if beta <= 1e-14 * found or abs(found - last) <= SETTLED * found:
                break
            betas.append(beta)
            before, now = now, following / beta
    return found**-0.5
