"""The picture of a recurrent matrix: its eigenvalues, its singular values, its Schur form."""

from pathlib import Path

import numpy as np
import torch
from scipy.linalg import schur
from torch import Tensor

from engram.pictures import check_picture, save_picture


def draw_spectrum(matrix: Tensor, path: Path, title: str = "") -> None:
    """Eigenvalues on the plane beside the unit circle, singular values, and |Schur form| as a heat map.

    The Schur form is the lower-triangular one of spec/spectral.md section 2, V = P Theta P^*: the spectrum on the
    diagonal, what is not normal below it. Writes SVG or PNG by the ending of the path.
    """
    check_picture(path)
    from matplotlib.figure import Figure  # slow to import, and only needed here

    v = matrix.detach().cpu().to(torch.complex128).numpy()
    eigenvalues, singular = np.linalg.eigvals(v), np.linalg.svd(v, compute_uv=False)
    form = np.abs(schur(v.conj().T, output="complex")[0]).T

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    plane, values, heat = figure.subplots(1, 3)
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 400))
    plane.plot(circle.real, circle.imag, color="#bbbbbb", linewidth=1)
    plane.scatter(eigenvalues.real, eigenvalues.imag, s=12, color="#0b5fa5", zorder=3)
    reach = max(1.15, 1.05 * float(np.abs(eigenvalues).max()))
    plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title="eigenvalues")
    values.plot(range(1, len(singular) + 1), singular, color="#d98c3f", marker=".", linewidth=1)
    values.axhline(1, color="#bbbbbb", linewidth=1, zorder=0)
    values.set(xlabel="number", title="singular values", ylim=(0, 1.1 * float(singular.max())))
    picture = heat.imshow(form, cmap="Blues", vmin=0, vmax=max(1.0, float(form.max())))
    heat.set(title="|Schur form|", xticks=[], yticks=[])
    figure.colorbar(picture, ax=heat, shrink=0.85)
    for axis in (plane, values):
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    save_picture(figure, path)
