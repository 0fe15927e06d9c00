"""Learned structure: what became of a recurrent matrix that began orthogonal, or in Schur form."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import schur
from torch import Tensor, nn

from engram.errors import NonFiniteError, OptionError
from engram.maps import Schur
from engram.probe._matrices import recurrent_matrices
from engram.probe._plain import plain
from engram.probe._subject import Subject


@dataclass(frozen=True)
class Matrix:
    """One recurrent matrix V = P Theta P^*, Theta lower triangular but for 2 x 2 blocks (spec/spectral.md 2, 5.6).

    drift: |V^* V - I|, Frobenius, over sqrt(N). angles: of the eigenvalues of the upper half plane, in 0 .. pi, or the
    learned theta modulo 2 pi. moduli: of the same. alignment: |mean exp(i angle)|, 1 if all agree. delay: the mean of
    |Theta_{i+k,i}|, k = 1, 2, ...; delay[0] is the strength of the delay line. triangle: the share of what lies below
    the diagonal blocks, |T| / |Theta|.
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
            f"{self.name} [{self.map}]{kept} is {self.drift:.2g} from orthogonal; {self.triangle:.1%} of the "
            f"norm of its Schur form is triangle, its delay line has a strength of "
            f"{max(self.delay[:1], default=0.0):.2g}, its angles are aligned to "
            f"{self.alignment:.2f} and its moduli are {np.mean(self.moduli):.3f} on average."
        )


@dataclass(frozen=True)
class Structure:
    """The recurrent matrices of all layers."""

    matrices: list[Matrix]

    def words(self) -> str:
        return "Structure: " + " ".join(matrix.words() for matrix in self.matrices)

    def to_dict(self) -> dict[str, Any]:
        return plain(asdict(self))

    def draw(self, axes: Any) -> None:
        """The mean of |Theta| by distance from the diagonal, and the eigenvalues of the first layer beside it."""
        for color, matrix in zip(("#0b5fa5", "#d98c3f", "#7a5195", "#4d8b57"), self.matrices, strict=False):
            axes.plot(range(1, len(matrix.delay) + 1), matrix.delay, color=color, linewidth=1, label=matrix.name)
        if len(self.matrices) > 1:
            axes.legend(frameon=False, fontsize=7, loc="upper left")
        first = self.matrices[0]
        points = np.array(first.moduli) * np.exp(1j * np.array(first.angles))
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, 200))
        inner = axes.inset_axes((0.68, 0.58, 0.32, 0.42))
        inner.plot(circle.real, circle.imag, color="#bbbbbb", linewidth=0.6)
        inner.scatter(points.real, points.imag, s=3, color="#0b5fa5")
        inner.set(aspect="equal", xticks=[], yticks=[])
        inner.spines[:].set_visible(False)
        top = max(0.01, *(max(matrix.delay, default=0.0) for matrix in self.matrices))
        axes.set(xlabel="below the diagonal", ylabel="mean of the Schur form", ylim=(0, 2.2 * top))  # room for both
        axes.set_title(f"Structure: drift {first.drift:.2g}, triangle {first.triangle:.0%}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)


def learned_structure(model: nn.Module | Subject) -> Structure:
    """Angles, delay line and triangle of every square recurrent matrix, and how far it is from orthogonal.

    Of a :class:`engram.nn.NonNormalRNN` they are its parameters; of others, of the real Schur form of V. A closed-form
    case: an orthogonal matrix has no triangle and no drift; the shift e_i -> e_{i+1} has a delay line of 1, all of
    it triangle.
    """
    module = model.module if isinstance(model, Subject) else model
    with torch.no_grad():
        found = [_matrix(*each) for each in recurrent_matrices(module)]
    if not found:
        raise OptionError(f"{type(module).__name__} has no square recurrent matrix (weight_hh)")
    return Structure(found)


def _matrix(name: str, weight: Tensor, map: Any, free: tuple[Tensor, ...]) -> Matrix:
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
    return Matrix(
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
