"""Orthogonal and unitary matrices as a base point times a function of a skew matrix."""

from abc import abstractmethod

import torch
from torch import Tensor

from engram.errors import check_size
from engram.maps._cayley import cayley_transform
from engram.maps._expm import exp_skew
from engram.maps._map import FreeParameters, Map
from engram.maps._polar import orthogonality_error, polar
from engram.maps._skew import SKEW_LAWS, check_law, haar, skew

REPROJECT = 30  # moves of the base after which its rounding errors are removed (M in the source)


class Orthogonal(Map):
    """W = Q f(A): Q a base point, A skew-symmetric (skew-Hermitian for complex matrices), f(A) unitary, f(0) = I.

    Free parameters: the ``N(N-1)/2`` entries of A above the diagonal; for complex matrices ``N^2`` reals, the
    coordinates of u(N) (see :func:`engram.maps.skew`). Assigning a matrix moves the base point there and sets A = 0,
    so every orthogonal matrix can be assigned, of either determinant; training then moves within its component.

    Dynamic trivialisation: with ``rebase_every=K`` the base moves to the current matrix every K optimiser steps, so
    that f is only used near 0, where it is closest to an isometry. Sources: Lezcano-Casado and Martinez-Rubio 2019,
    Lezcano-Casado 2019, spec/spectral.md 4.12; Hyland and Rätsch 2017 for the complex exponential, 4.6.

    Args:
        size: N.
        init: the law of ``sample``: haar, henaff, cayley or identity.
        rebase_every: K, or None to leave the base where it was assigned.
        complex: what ``sample`` draws; an assigned matrix may be either.
    """

    promise = "orthogonal (W^* W = I)"
    count = "N(N-1)/2 real, N^2 complex"
    takes_half = True
    base: Tensor
    steps: Tensor

    def __init__(
        self, size: int, *, init: str = "haar", rebase_every: int | None = None, complex: bool = False
    ) -> None:
        super().__init__(size)
        self.init = check_law(init)
        self.rebase_every = None if rebase_every is None else check_size("rebase_every", rebase_every)
        self.complex = complex
        self.register_buffer("base", torch.eye(size))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # saved, so that a resumed run goes on alike

    @abstractmethod
    def retract(self, skew: Tensor, base: Tensor | None = None) -> Tensor:
        """Q f(A), or f(A) without a base."""

    def forward(self, entries: Tensor) -> Tensor:  # type: ignore[override]
        return self.retract(skew(entries, self.size), self.base)

    def free(self, matrix: Tensor) -> FreeParameters:
        self.base = matrix.detach().clone()
        n = self.size
        zeros = matrix.real.new_zeros(n * n if matrix.is_complex() else n * (n - 1) // 2)
        return (zeros,) if matrix.is_complex() else zeros

    def distance(self, matrix: Tensor) -> float:
        return orthogonality_error(matrix.detach())

    def after_step(self, entries: Tensor) -> None:  # type: ignore[override]
        """Every K steps: Q <- Q f(A), A <- 0."""
        self.steps += 1
        if self.rebase_every and int(self.steps) % self.rebase_every == 0:
            self.base.copy_(self.forward(entries))
            entries.zero_()
            if int(self.steps) % (self.rebase_every * REPROJECT) == 0:
                self.base.copy_(polar(self.base))

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """The base moves to a matrix of the law ``init``, uniform on SO(N) or U(N) or f(A) of a law of A; A = 0."""
        complex = self.complex or complex
        if self.init == "haar":
            matrix = haar(self.size, generator, complex)
            if not complex and float(torch.linalg.det(matrix)) < 0:
                matrix[:, 0] *= -1  # into SO(N), which exp and Cayley move in
        else:
            matrix = self.retract(skew(SKEW_LAWS[self.init](self.size, generator), self.size))
        found = self.free(matrix.to(torch.complex128) if complex else matrix)
        return (found,) if isinstance(found, Tensor) else found

    def extra_repr(self) -> str:
        law = "" if self.init == "haar" else f", init={self.init!r}"
        return f"{self.size}{law}" + (f", rebase_every={self.rebase_every}" if self.rebase_every else "")


class Exponential(Orthogonal):
    """W = Q exp(A), A skew. The exponential is onto: all of SO(N), or U(N), is reached (expRNN, Hyland and Rätsch).

    Cost: O(N^3) a build, by :func:`engram.maps.exp_skew`, several times faster than torch.linalg.matrix_exp.
    """

    equation = "W = Q exp(A), A^* = -A"
    source = "Lezcano-Casado and Martinez-Rubio 2019 (expRNN), Hyland and Rätsch 2017"

    def retract(self, skew: Tensor, base: Tensor | None = None) -> Tensor:
        return exp_skew(skew) if base is None else base @ exp_skew(skew)


class Cayley(Orthogonal):
    """W = Q (I + A)^-1 (I - A), A skew. Cheaper than the exponential; misses a set of measure zero.

    Cost: O(N^3) a build, one inverse. Source: spec/spectral.md, conventions (no factor 1/2).
    """

    equation = "W = Q (I + A)^-1 (I - A), A^* = -A"
    source = "Cayley 1846"

    def retract(self, skew: Tensor, base: Tensor | None = None) -> Tensor:
        return cayley_transform(skew, base)
