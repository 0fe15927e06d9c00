"""Maps that store the matrix itself, and keep its property exactly or nearly by other means than a formula."""

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice
from engram.maps._free import Free
from engram.maps._map import Map
from engram.maps._polar import orthogonality_error, polar
from engram.maps._skew import haar


class SoftOrthogonal(Free):
    """Any matrix, with the penalty strength |W^* W - I|^2 added to the loss (``layer.penalty()``).

    Args:
        size (int): N, for matrices ``(N, N)``.
        strength (float): the weight of the penalty, at least 0. Default: 0.01.
        norm (str): ``fro`` (Frobenius) or ``spectral``, as the source writes it. Default: ``fro``.

    Source: Vorontsov et al. 2017 (soft constraint); also Kerg (2022), Appendix D.3.
    """

    promise = "any matrix, pulled towards the orthogonal ones"
    equation = "W = X, loss + strength |X^* X - I|^2"
    source = "Vorontsov et al. 2017 (soft)"

    def __init__(self, size: int, strength: float = 0.01, norm: str = "fro") -> None:
        super().__init__(size)
        if not strength >= 0:
            raise OptionError(f"strength must not be negative, got {strength}")
        self.strength, self.norm = strength, check_choice("norm", norm, ("fro", "spectral"))

    def penalty(self, free: Tensor) -> Tensor:  # type: ignore[override]
        eye = torch.eye(self.size, device=free.device, dtype=free.dtype)
        norm: Tensor = torch.linalg.matrix_norm(free.mH @ free - eye, 2 if self.norm == "spectral" else "fro")
        return self.strength * norm.square()

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """It starts orthogonal."""
        return (haar(self.size, generator, complex),)

    def extra_repr(self) -> str:
        return f"{self.size}, strength={self.strength}, norm={self.norm!r}"


class Projected(Map):
    """W = X, and after each optimiser step X becomes the orthogonal (unitary) matrix nearest to it.

    The nearest one is U V^* of the singular value decomposition (the polar factor). Needs
    :func:`engram.maps.attach`, which ``engram train`` calls.

    Args:
        size (int): N, for matrices ``(N, N)``.
    """

    promise = "orthogonal (unitary if complex), restored after each step"
    equation = "W = X, X <- U V^* of its SVD after each step"
    count = "N^2"
    takes_half = True
    angles = slice(0)  # the projection gives back what a step of the plain rate took
    apply_cost, build_cost = "N^2", "N^3 per step"
    source = "projection by SVD"

    def forward(self, free: Tensor) -> Tensor:  # type: ignore[override]
        return free

    def free(self, matrix: Tensor) -> Tensor:
        return matrix

    def distance(self, matrix: Tensor) -> float:
        return orthogonality_error(matrix.detach())

    def after_step(self, free: Tensor) -> None:  # type: ignore[override]
        free.copy_(polar(free))

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        return (haar(self.size, generator, complex),)


class Stiefel(Projected):
    """W = X, moved along the group by :class:`engram.maps.StiefelStep` rather than by an ordinary optimiser.

    Args:
        size (int): N, for matrices ``(N, N)``.

    Source: Wisdom et al. 2016 (full-capacity uRNN); the generator printed there is no descent direction, this one is.
    """

    promise = "orthogonal (unitary if complex), moved by StiefelStep"
    equation = "W = X, X <- Cay(lr/2 (G X^* - X G^*)) X each step"
    source = "Wisdom et al. 2016 (full-capacity uRNN)"

    def after_step(self, free: Tensor) -> None:  # type: ignore[override]
        """StiefelStep does what is needed."""
