"""Eigenvalues, singular values and what lies between them: how far a matrix is from normal (spec/spectral.md 2, 5.3).

    W = P (Lambda + R) P*,   P unitary, Lambda = diag(eigenvalues), R strictly upper triangular
    |W|_F^2 = |Lambda|_F^2 + |R|_F^2,   d(W) = |R|_F  (Henrici's departure from normality, 0 iff W is normal).

Eigenvalues tell what happens in the end, |W^t| what happens on the way.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import schur
from torch import Tensor

from engram.errors import check_size
from engram.probe._plain import plain, square
from engram.probe._pseudospectrum import Pseudospectrum, pseudospectrum

ROUNDING = 1e-10
STILL = 1e-6  # a matrix that was trained in float32 is no nearer to its promise
"""What counts as equal to 1."""


@dataclass(frozen=True)
class Growth:
    """|W^t| against t, as far as it was followed."""

    times: np.ndarray
    norms: np.ndarray
    """|W^t|_2 at these times; times[0] = 0, norms[0] = 1."""
    proven: bool
    """No later t can have a larger norm: |W^m| <= 1 was reached, so |W^(m+t)| <= |W^t|, and no t was left out."""

    @property
    def peak(self) -> float:
        return float(self.norms.max())

    @property
    def peak_time(self) -> int:
        """The first time at the peak, up to rounding: an orthogonal matrix has it at 0."""
        return int(self.times[np.argmax(self.norms >= self.peak * (1 - ROUNDING))])


@dataclass(frozen=True)
class Spectrum:
    """What :func:`spectrum` found."""

    eigenvalues: np.ndarray
    """(N,), complex, the largest modulus first."""
    singular_values: np.ndarray
    """(N,), falling."""
    form: np.ndarray
    """(N, N), complex: Lambda + R, the Schur form."""
    departure: float
    """d(W) = |R|_F, Henrici's departure from normality."""
    abscissa: float
    """The largest eigenvalue of (W + W*) / 2: the numerical abscissa, log of the growth rate of exp(W t) at t = 0."""
    growth: Growth
    pseudo: Pseudospectrum | None

    @property
    def radius(self) -> float:
        return float(np.abs(self.eigenvalues[0]))

    @property
    def triangular_share(self) -> float:
        """|R|_F^2 / |W|_F^2: the share of the matrix that feeds one mode into the next; 0 for a normal matrix."""
        whole = float(np.linalg.norm(self.form)) ** 2
        return self.departure**2 / whole if whole else 0.0

    @property
    def diagonal_share(self) -> float:
        """The rest, |Lambda|_F^2 / |W|_F^2: modes that keep to themselves."""
        return 1 - self.triangular_share

    def to_dict(self) -> dict[str, Any]:
        """For JSON: all but the Schur form, complex numbers as [re, im]."""
        kept = (
            "eigenvalues",
            "singular_values",
            "radius",
            "departure",
            "diagonal_share",
            "triangular_share",
            "abscissa",
        )
        told = {name: plain(getattr(self, name)) for name in kept}
        growth = {**plain(self.growth), "peak": plain(self.growth.peak), "peak_time": self.growth.peak_time}
        return {**told, "growth": growth, "pseudospectrum": None if self.pseudo is None else self.pseudo.to_dict()}

    def words(self) -> str:
        """What it means, for a student."""
        if self.radius < ROUNDING:
            end = "every state is forgotten after at most N steps"
        elif self.radius < 1 - STILL:
            end = f"in the end a state is halved every {math.log(2) / -math.log(self.radius):.3g} steps or faster"
        elif self.radius <= 1 + STILL:
            end = "the slowest mode neither grows nor decays"
        else:
            end = f"the fastest mode doubles every {math.log(2) / math.log(self.radius):.3g} steps"
        if self.triangular_share < ROUNDING:
            kind = "The matrix is normal: its modes do not feed each other, and the eigenvalues tell everything."
        else:
            kind = (
                f"{self.triangular_share:.1%} of its weight (squared) feeds one mode into another: it is not normal "
                f"(Henrici's departure {self.departure:.3g})"
            )
            top = self.growth
            if self.radius > 1 + STILL:
                kind += "."
            elif top.peak > 1 + ROUNDING:
                sure = "" if top.proven else f", as far as it was followed (t = {top.times[-1]})"
                kind += f", and some state grows {top.peak:.3g} times, by step {top.peak_time}, before it decays{sure}."
            else:
                kind += ", but no state ever grows."
        return f"Spectrum: the largest eigenvalue has modulus {self.radius:.4g}, so {end}. {kind}"

    def draw(self, axes: Any) -> None:
        """Eigenvalues, the unit circle, and the lines of the pseudospectrum."""
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.plot(np.cos(turn), np.sin(turn), color="#888888", linewidth=0.9, linestyle=":")
        if self.pseudo is not None:
            self.pseudo.draw(axes)
        axes.plot(self.eigenvalues.real, self.eigenvalues.imag, ".", color="#b04a3a", markersize=4)
        axes.set(xlabel="Re", ylabel="Im", aspect="equal")
        axes.set_title(
            f"Spectrum, departure {self.departure:.3g}, max |W^t| {self.growth.peak:.3g}", loc="left", fontsize=10
        )
        axes.spines[["top", "right"]].set_visible(False)

    def draw_growth(self, axes: Any) -> None:
        """|W^t| and what the eigenvalues alone would give, radius^t."""
        axes.plot(
            self.growth.times,
            self.radius ** self.growth.times.astype(float),
            color="#888888",
            linestyle=":",
            label="radius^t",
        )
        axes.plot(self.growth.times, self.growth.norms, color="#0b5fa5", label="|W^t|")
        axes.set(xlabel="steps t", ylabel="largest gain")
        axes.set_yscale("log")
        axes.set_ylim(max(min(self.growth.norms[-1], 1.0) / 2, 1e-6), 2 * self.growth.peak)
        axes.set_title("Transient growth", loc="left", fontsize=10)
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)


def spectrum(W: Tensor | np.ndarray, *, grid: int = 48, steps: int = 256) -> Spectrum:
    """All of it for one matrix (N, N), real or complex.

    Args:
        W: the recurrent matrix.
        grid: points on a side of the pseudospectrum; 0: none.
        steps: how far every t of |W^t| is followed; then t doubles, up to 2^20, until |W^t| <= 1.

    >>> spectrum(np.array([[0.5, 3.0], [0.0, 0.5]]), grid=0).departure
    3.0
    """
    matrix = square(W)
    form = schur(matrix, output="complex")[0]
    values = form.diagonal()
    return Spectrum(
        eigenvalues=values[np.argsort(-np.abs(values), kind="stable")],
        singular_values=np.linalg.svd(matrix, compute_uv=False),
        form=form,
        departure=float(np.linalg.norm(np.triu(form, 1))),
        abscissa=float(np.linalg.eigvalsh((matrix + matrix.conj().T) / 2)[-1]),
        growth=transient_growth(matrix, steps=steps),
        pseudo=pseudospectrum(matrix, points=grid) if check_size("grid", grid, least=0) else None,
    )


def transient_growth(W: Tensor | np.ndarray, *, steps: int = 256) -> Growth:
    """|W^t|_2 at t = 0, 1, ... to twice the first t with |W^t| <= 1, after which nothing new can come.

    Where no such t comes up to ``steps``, t doubles from there on.
    """
    matrix = square(W)
    check_size("steps", steps)
    times, norms, power, back = [0], [1.0], np.eye(len(matrix)), 0
    while times[-1] < steps and norms[-1] < 1e100:
        power = matrix @ power
        times.append(times[-1] + 1)
        norms.append(float(np.linalg.norm(power, 2)))
        back = back or (times[-1] if norms[-1] <= 1 + ROUNDING else 0)
        if back and times[-1] >= max(16, 2 * back):
            break
    if not back and float(np.abs(np.linalg.eigvals(matrix)).max()) < 1:
        while norms[-1] > 1 and norms[-1] < 1e100 and times[-1] < 2**20:
            power = power @ power
            times.append(2 * times[-1])
            norms.append(float(np.linalg.norm(power, 2)))
    return Growth(np.array(times), np.array(norms), bool(back))
