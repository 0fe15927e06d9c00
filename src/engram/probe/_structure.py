"""Structure: what became of a recurrent matrix that began orthogonal, or in Schur form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import schur
from torch import Tensor, nn

from engram.errors import NonFiniteError, OptionError
from engram.figures import BLUE, MUTED, SERIES
from engram.maps import Schur
from engram.probe._cost import Cost
from engram.probe._matrices import RecurrentMatrix, recurrent_matrices
from engram.probe._part import Part
from engram.probe._setup import Setup
from engram.probe._subject import Subject


@dataclass(frozen=True)
class MatrixStructure:
    """One recurrent matrix V = P Theta P^*, Theta lower triangular except for 2 x 2 blocks on its diagonal.

    name: as torch names it. map: the class of its map, "free" without one. drift: |V^* V - I| / sqrt(N), Frobenius.
    angles: of the eigenvalues of the upper half plane, in 0 .. pi, or the learned theta modulo 2 pi. moduli: of the
    same. alignment: |mean exp(i angle)|, 1 if all agree. delay: the mean of |Theta_{i+k,i}|, k = 1, 2, ...; delay[0] is
    the strength of the delay line. triangle: |T| / |Theta|, T what lies below the diagonal blocks. promise: what the
    map keeps, and error: how well.
    """

    name: str
    map: str
    drift: float
    angles: list[float]
    moduli: list[float]
    alignment: float
    delay: list[float]
    triangle: float
    promise: str
    error: float | None

    def words(self) -> str:
        kept = "" if self.error is None else f" ({self.promise}: kept to {self.error:.1e})"
        return (
            f"{self.name} [{self.map}]{kept}: {self.triangle:.1%} of the norm of its Schur form is below the diagonal, "
            f"its delay line has strength {max(self.delay[:1], default=0.0):.2g}, its angles are aligned to "
            f"{self.alignment:.2f}, the mean modulus of its eigenvalues is {np.mean(self.moduli):.3f}."
        )


@dataclass(frozen=True)
class Structure(Part):
    """The recurrent matrices of all layers."""

    name = "structure"
    title = "Structure"
    question = "What became of a matrix that began orthogonal, or in Schur form?"

    matrices: list[MatrixStructure]

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """Nothing is called."""
        return Cost()

    @classmethod
    def measure(cls, setup: Setup) -> "Structure":
        return learned_structure(setup.subject)

    def headline(self) -> str:
        apart = [f"{matrix.name} is {matrix.drift:.2g}" for matrix in self.matrices]
        return f"{', '.join(apart)} from orthogonal."

    def details(self) -> str:
        return " ".join(matrix.words() for matrix in self.matrices)

    def brief(self) -> str:
        return f"drift {self.matrices[0].drift:.2g}"

    def plot(self, axes: Any) -> None:
        """The mean of |Theta| by distance from the diagonal, and the eigenvalues of the first layer beside it."""
        for color, matrix in zip(SERIES, self.matrices, strict=False):
            axes.plot(range(1, len(matrix.delay) + 1), matrix.delay, color=color, linewidth=1, label=matrix.name)
        if len(self.matrices) > 1:
            axes.legend(loc="upper left")
        first = self.matrices[0]
        points = np.array(first.moduli) * np.exp(1j * np.array(first.angles))
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, 200))
        inner = axes.inset_axes((0.68, 0.58, 0.32, 0.42))
        inner.plot(circle.real, circle.imag, color=MUTED, linewidth=0.6)
        inner.scatter(points.real, points.imag, s=3, color=BLUE)
        inner.set(aspect="equal", xticks=[], yticks=[])
        inner.spines[:].set_visible(False)
        top = max(0.01, *(max(matrix.delay, default=0.0) for matrix in self.matrices))
        title = f"Structure: drift {first.drift:.2g}, triangle {first.triangle:.0%}"
        axes.set(
            title=title, xlabel="distance below the diagonal", ylabel="mean of the Schur form", ylim=(0, 2.2 * top)
        )


def learned_structure(model: nn.Module | Subject) -> Structure:
    """Angles, delay line and triangle of every square recurrent matrix, and how far it is from orthogonal.

    Of a :class:`engram.nn.NonNormalRNN` they are its parameters; of other layers, of the real Schur form of V. Cases in
    closed form: an orthogonal matrix has no triangle and no drift; the shift e_i -> e_{i+1} has a delay line of
    strength 1 and is all triangle. Source: Kerg (2022), Section 3.6.3, Fig. 3, and Appendix A.5; the parameters,
    Eq. 3.5.1.

    Args:
        model: a module, or a :class:`Subject`.
    """
    module = model.module if isinstance(model, Subject) else model
    with torch.no_grad():
        found = [_matrix(each) for each in recurrent_matrices(module)]
    if not found:
        raise OptionError(f"{type(module).__name__} has no square recurrent matrix (weight_hh)")
    return Structure(found)


def _matrix(found: RecurrentMatrix) -> MatrixStructure:
    name, weight, map, free = found
    v = weight.to(torch.complex128 if weight.is_complex() else torch.float64)
    if not bool(torch.isfinite(v).all()):
        raise NonFiniteError(f"{name} holds NaN or infinity: it has no Schur form")
    size = len(v)
    drift = float(torch.linalg.norm(v.mH @ v - torch.eye(size, dtype=v.dtype))) / size**0.5
    if isinstance(map, Schur):
        form, angles, moduli = _learned(map, free)
    else:
        form, angles, moduli = _decomposed(v.numpy())
    below = np.tril(np.abs(form), -1)
    if not np.iscomplexobj(form):  # the 2 x 2 blocks are not triangle
        first = np.flatnonzero(np.abs(np.diag(form, 1)) > 1e-12)
        below[first + 1, first] = np.abs(form[first + 1, first] + form[first, first + 1])
    whole = float(np.linalg.norm(form))
    return MatrixStructure(
        name,
        "free" if map is None else type(map).__name__,
        drift,
        angles.tolist(),
        moduli.tolist(),
        float(np.abs(np.exp(1j * angles).mean())) if len(angles) else 0.0,
        [float(np.abs(np.diag(below, -k)).mean()) for k in range(1, size)],
        float(np.linalg.norm(below)) / whole if whole else 0.0,
        "" if map is None else map.promise,
        None if map is None else float(map.error(*free)),
    )


def _learned(map: Schur, free: tuple[Tensor, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lambda + T, theta and gamma as they are trained."""
    _, lower, theta, *gamma = (part.detach().double().cpu() for part in free)
    form = map.theta_matrix(lower, theta, *gamma).cpu().numpy()
    moduli = gamma[0].abs().numpy()[: len(theta)] if gamma else np.full(len(theta), float(map.gamma or 0.0))
    return form, np.mod(theta.numpy(), 2 * np.pi), moduli


def _decomposed(v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower Schur form, real for a real matrix, and its eigenvalues of the upper half plane."""
    is_complex = np.iscomplexobj(v)
    form = schur(v.conj().T, output="complex" if is_complex else "real")[0].conj().T
    values = np.linalg.eigvals(v)
    values = values if is_complex else values[values.imag >= -1e-12]
    return form, np.angle(values), np.abs(values)
