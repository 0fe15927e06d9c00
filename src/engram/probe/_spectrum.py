"""Spectrum of a recurrent matrix: eigenvalues, singular values, and how far it is from normal.

    W = P (Lambda + R) P*,   P unitary, Lambda = diag(eigenvalues), R strictly upper triangular
    |W|_F^2 = |Lambda|_F^2 + |R|_F^2,   d(W) = |R|_F: Henrici's departure from normality, 0 if and only if W is normal.

Eigenvalues say what happens in the end, |W^t| what happens on the way.
Source: Kerg (2022), Section 2.3 (Schur decomposition and Henrici's departure), Section 3.4.1 (transient growth).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import schur
from torch import Tensor

from engram.errors import check_size
from engram.figures import BLUE, MUTED, RED
from engram.probe._arrays import square_matrix
from engram.probe._cost import Cost
from engram.probe._growth import ROUNDING, Growth, transient_growth
from engram.probe._json import as_json
from engram.probe._linear import LARGEST_JACOBIAN, Tangent
from engram.probe._part import Part, Plot
from engram.probe._pseudospectrum import Pseudospectrum, pseudospectrum
from engram.probe._reached import DIRECTIONS
from engram.probe._setup import Setup

ONE = 1e-6
"""How near to 1 a radius counts as 1: a matrix trained in float32 is no nearer to it."""


@dataclass(frozen=True)
class Spectrum(Part):
    """What :func:`spectrum` found."""

    name = "spectrum"
    title = "Spectrum"
    question = "Do the recurrent matrix's modes decay, last or grow, and do they feed each other?"

    eigenvalues: np.ndarray
    """(N,), complex, the largest modulus first."""
    singular_values: np.ndarray
    """(N,), falling."""
    form: np.ndarray
    """(N, N), complex: Lambda + R, the Schur form."""
    departure: float
    """d(W) = |R|_F, Henrici's departure from normality."""
    abscissa: float
    """The largest eigenvalue of (W + W*) / 2, the numerical abscissa: the growth rate of |exp(W t)| at t = 0."""
    growth: Growth
    """|W^t| over t."""
    pseudo: Pseudospectrum | None
    """Where small changes of W can put eigenvalues; None if it was not asked for."""

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """The pseudospectrum takes the time: about 0.03 s per unit."""
        size = setup.subject.state_size
        return Cost(seconds=0.03 * (size if size <= LARGEST_JACOBIAN else DIRECTIONS))

    @classmethod
    def measure(cls, setup: Setup) -> "Spectrum":
        """Of the recurrent matrix of the first layer; of a gated model, of its step's Jacobian."""
        matrix = setup.subject.recurrent_matrix()
        if matrix is not None:
            return spectrum(matrix)
        near = setup.jacobian
        if isinstance(near, Tangent) and not near.linear:
            setup.notes.append(
                "gated model: the spectrum is that of the step's Jacobian at the state which the inputs lead to"
            )
        return spectrum(near.matrix)

    @property
    def radius(self) -> float:
        """The largest modulus of an eigenvalue."""
        return float(np.abs(self.eigenvalues[0]))

    @property
    def triangular_share(self) -> float:
        """|R|_F^2 / |W|_F^2: the share of the matrix that feeds one mode into the next; 0 for a normal matrix."""
        whole = float(np.linalg.norm(self.form)) ** 2
        return self.departure**2 / whole if whole else 0.0

    @property
    def diagonal_share(self) -> float:
        """|Lambda|_F^2 / |W|_F^2, the rest."""
        return 1 - self.triangular_share

    def to_dict(self) -> dict[str, Any]:
        """For JSON: without the Schur form; complex numbers as [real, imaginary]."""
        names = (
            "eigenvalues",
            "singular_values",
            "radius",
            "departure",
            "diagonal_share",
            "triangular_share",
            "abscissa",
        )
        growth = {**as_json(self.growth), "peak": as_json(self.growth.peak), "peak_time": self.growth.peak_time}
        pseudo = None if self.pseudo is None else self.pseudo.to_dict()
        return as_json({name: getattr(self, name) for name in names}) | {"growth": growth, "pseudospectrum": pseudo}

    def headline(self) -> str:
        if self.radius < ROUNDING:
            end = "every state is forgotten after at most N steps"
        elif self.radius < 1 - ONE:
            end = f"in the end a state is halved every {math.log(2) / -math.log(self.radius):.3g} steps or faster"
        elif self.radius <= 1 + ONE:
            end = "the slowest mode neither grows nor decays"
        else:
            end = f"the fastest mode doubles every {math.log(2) / math.log(self.radius):.3g} steps"
        return f"{end} (the largest eigenvalue has modulus {self.radius:.4g})."

    def details(self) -> str:
        if self.triangular_share < ROUNDING:
            return "The matrix is normal: its modes do not feed each other."
        departs = f"It is not normal: {self.triangular_share:.1%} of it (squared) feeds one mode into another"
        departs += f" (Henrici's departure {self.departure:.3g})"
        top = self.growth
        if self.radius > 1 + ONE:
            return f"{departs}."
        if top.peak <= 1 + ROUNDING:
            return f"{departs}, but no state ever grows."
        sure = "" if top.proven else f", as far as it was followed (t = {top.times[-1]})"
        return f"{departs}; some state grows {top.peak:.3g} times, by step {top.peak_time}, before it decays{sure}."

    def brief(self) -> str:
        return f"radius {self.radius:.3g}"

    def plots(self) -> list[Plot]:
        return [self.plot, self.plot_growth]

    def plot(self, axes: Any) -> None:
        """Eigenvalues, the unit circle, and the lines of the pseudospectrum."""
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.plot(np.cos(turn), np.sin(turn), color=MUTED, linewidth=0.9, linestyle=":")
        if self.pseudo is not None:
            self.pseudo.plot(axes)
        axes.plot(self.eigenvalues.real, self.eigenvalues.imag, ".", color=RED, markersize=4)
        title = f"Spectrum: departure {self.departure:.2g}\nlargest |W^t| {self.growth.peak:.3g}"
        words = "real part" + (" (contours: pseudospectrum, outermost 0.1)" if self.pseudo is not None else "")
        axes.set(title=title, xlabel=words, ylabel="imaginary part", aspect="equal")

    def plot_growth(self, axes: Any) -> None:
        """|W^t| and what the eigenvalues alone would give, radius^t."""
        times, norms = self.growth.times, self.growth.norms
        axes.plot(times, self.radius ** times.astype(float), color=MUTED, linestyle=":", label="radius^t")
        axes.plot(times, norms, color=BLUE, label="|W^t|")
        limits = (max(min(norms[-1], 1.0) / 2, 1e-6), 2 * self.growth.peak)
        axes.set(title="Transient growth", xlabel="steps t", ylabel="largest gain", yscale="log", ylim=limits)
        axes.legend()


def spectrum(W: Tensor | np.ndarray, *, grid: int = 48, steps: int = 256) -> Spectrum:
    """Eigenvalues, departure from normality, transient growth and pseudospectrum of one matrix.

    Args:
        W: (N, N), real or complex.
        grid: points on a side of the pseudospectrum; 0: none.
        steps: how far every t of |W^t| is followed; then t doubles, up to 2^20, until |W^t| <= 1.

    >>> spectrum(np.array([[0.5, 3.0], [0.0, 0.5]]), grid=0).departure
    3.0
    """
    matrix = square_matrix(W)
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
