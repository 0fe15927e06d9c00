"""Orthogonal and unitary matrices as a base point times a function of a skew matrix."""

from abc import abstractmethod

import torch
from torch import Tensor

from engram.errors import check_size
from engram.maps._cayley import cayley_transform
from engram.maps._expm import exp_skew
from engram.maps._map import FreeParameters, Map
from engram.maps._polar import orthogonality_error, polar
from engram.maps._several_expm import exponentials
from engram.maps._skew import SKEW_LAWS, check_law, haar, skew
from engram.maps._transforms import on_stacks

REPROJECT = 30  # moves of the base after which its rounding errors are removed (M in the source)


class Orthogonal(Map):
    """The base of maps to orthogonal matrices W = Q f(A): Q a base point, A^* = -A, f(A) unitary, f(0) = I.

    Free parameters: the ``N(N-1)/2`` entries of A above the diagonal; for complex matrices ``N^2`` reals, the
    coordinates of u(N) (see :func:`engram.maps.skew`). Assigning a matrix moves the base point there and sets A = 0,
    so every orthogonal matrix can be assigned, of either determinant; training then moves within its component.

    Dynamic trivialisation: with ``rebase_every=K`` the base moves to the current matrix every K optimiser steps, so
    that f is only used near 0, where it is closest to an isometry.

    Args:
        size (int): N, for matrices ``(N, N)``.
        init (str): distribution of the matrix that ``sample`` gives: ``haar`` (uniform over all rotations; over all
            unitary matrices, if complex), ``henaff`` (angles uniform in (-pi, pi)), ``cayley`` (angles within one
            radian) or ``identity``. Default: ``haar``.
        rebase_every (int or None): K, move the base point every K optimiser steps (see :func:`engram.maps.attach`).
            Default: None, never.
        complex (bool): whether ``sample`` gives a unitary matrix; a matrix that is assigned may be either. Default:
            False.

    Source: Lezcano-Casado and Martinez-Rubio 2019; dynamic trivialisation, Lezcano-Casado 2019; the complex
    exponential, Hyland and Rätsch 2017; also Kerg (2022), Appendices D.3 and D.4.
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
    """W = Q exp(A), A^* = -A: all rotations, or all unitary matrices, are reached.

    Free parameters: the N(N-1)/2 entries of A above the diagonal (N^2 real numbers for a complex matrix). Assigning a
    matrix moves the base point Q there and sets A = 0.

    Args:
        size (int): N, for matrices ``(N, N)``.
        init (str): distribution of the matrix that ``sample`` gives: ``haar`` (uniform over all rotations; over all
            unitary matrices, if complex), ``henaff`` (angles uniform in (-pi, pi)), ``cayley`` (angles within one
            radian) or ``identity``. Default: ``haar``.
        rebase_every (int or None): K, move the base point every K optimiser steps (see :func:`engram.maps.attach`).
            Default: None, never.
        complex (bool): whether ``sample`` gives a unitary matrix; a matrix that is assigned may be either. Default:
            False.

    Cost: O(N^3) per build, by :func:`engram.maps.exp_skew`, several times faster than torch.linalg.matrix_exp.

    Source: Lezcano-Casado and Martinez-Rubio 2019 (expRNN); complex, Hyland and Rätsch 2017; ``rebase_every``,
    Lezcano-Casado 2019; also Kerg (2022), Appendices D.3 and D.4.
    """

    equation = "W = Q exp(A), A^* = -A"
    source = "Lezcano-Casado and Martinez-Rubio 2019 (expRNN), Hyland and Rätsch 2017"

    def retract(self, skew: Tensor, base: Tensor | None = None) -> Tensor:
        return exp_skew(skew) if base is None else base @ exp_skew(skew)

    def _per_member(self, free: tuple[Tensor, ...]) -> Tensor:
        if self.base.is_complex():
            return super()._per_member(free)
        found: Tensor = on_stacks(exponentials, *free, self.base)
        return found


class Cayley(Orthogonal):
    """W = Q (I + A)^-1 (I - A), A^* = -A: cheaper than the exponential; misses a set of measure zero.

    Free parameters: the N(N-1)/2 entries of A above the diagonal (N^2 real numbers for a complex matrix). Assigning a
    matrix moves the base point Q there and sets A = 0.

    Args:
        size (int): N, for matrices ``(N, N)``.
        init (str): distribution of the matrix that ``sample`` gives: ``haar`` (uniform over all rotations; over all
            unitary matrices, if complex), ``henaff`` (angles uniform in (-pi, pi)), ``cayley`` (angles within one
            radian) or ``identity``. Default: ``haar``.
        rebase_every (int or None): K, move the base point every K optimiser steps (see :func:`engram.maps.attach`).
            Default: None, never.
        complex (bool): whether ``sample`` gives a unitary matrix; a matrix that is assigned may be either. Default:
            False.

    Cost: O(N^3) per build, one inverse.

    Source: Cayley 1846; without the factor 1/2 in front of A that some papers have.
    """

    equation = "W = Q (I + A)^-1 (I - A), A^* = -A"
    source = "Cayley 1846"

    def retract(self, skew: Tensor, base: Tensor | None = None) -> Tensor:
        return cayley_transform(skew, base)
