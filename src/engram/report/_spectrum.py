"""The figure of a recurrent matrix: its eigenvalues, its singular values, its Schur form."""

from pathlib import Path

import numpy as np
import torch
from scipy.linalg import schur
from torch import Tensor

from engram.figures import BLUE, MUTED, ORANGE, heat_colors, new_figure


def plot_spectrum(matrix: Tensor, path: Path, title: str = "") -> None:
    """Plot eigenvalues on the plane beside the unit circle, singular values, and the absolute Schur form.

    The Schur form is the lower-triangular one, V = P Theta P^* (Kerg 2022, Eq. 3.4.1): the eigenvalues on
    the diagonal, below it what makes V non-normal. Its norm, the departure from normality, stands above it (Henrici
    1962).

    Args:
        matrix: V, ``(N, N)``, real or complex.
        path: a name ending in .svg or .png.
        title: a line above the figure.
    """
    v = matrix.detach().cpu().to(torch.complex128).numpy()
    eigenvalues, singular = np.linalg.eigvals(v), np.linalg.svd(v, compute_uv=False)
    form = np.abs(schur(v.conj().T, output="complex")[0]).T
    departure = float(np.linalg.norm(np.tril(form, -1)))
    with new_figure(path, 1, 3, height=3.3, title=title, width_ratios=(1, 1.15, 1.2)) as figure:
        plane, values, heat = figure.axes
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, 400))
        plane.plot(circle.real, circle.imag, color=MUTED, linewidth=1, linestyle=":")
        plane.plot(eigenvalues.real, eigenvalues.imag, ".", color=BLUE, markersize=6)
        radius = float(np.abs(eigenvalues).max())
        reach = max(1.15, 1.08 * radius)
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        plane.set(title=f"Eigenvalues: largest {radius:.3g}", xlabel="real part", ylabel="imaginary part")
        values.plot(range(1, len(singular) + 1), singular, color=ORANGE, marker="o", markersize=3, linewidth=1)
        values.axhline(1, color=MUTED, linewidth=1, linestyle=":")
        least, most = f"{singular[-1]:.3g}", f"{singular[0]:.3g}"
        told = f"{least} to {most}" if least != most else f"all {most}"
        values.set(title=f"Singular values: {told}", ylabel="singular value")
        values.set(xlabel="index, largest first", ylim=(0, 1.12 * max(1.0, singular[0])))
        image = heat.imshow(form, cmap=heat_colors(), vmin=0, vmax=max(1.0, form.max()), interpolation="nearest")
        normal = departure <= 1e-5 * radius * len(v)  # of float32
        heat.set_title("|Schur form|: normal matrix" if normal else f"|Schur form|: off the diagonal {departure:.2g}")
        heat.set(xlabel="column", ylabel="row", xticks=[], yticks=[])
        heat.spines[:].set_visible(True)
        heat.grid(visible=False)
        figure.colorbar(image, ax=heat, shrink=0.85)
