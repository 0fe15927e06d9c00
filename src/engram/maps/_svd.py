"""Bounded singular values."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError
from engram.maps._householder import Householder
from engram.maps._map import Map, require_real
from engram.maps._orthogonal import Exponential


class SpectralMargin(Map):
    """W = U diag(s) V^T, s_i = 1 + 2 m (sigmoid(p_i) - 1/2): singular values within m of one.

    Free parameters: A of U, A of V, p: ``N^2`` in all. m = 0 is orthogonal, m = 1 allows (0, 2). It starts with s = 1.

    Args:
        size (int): N, for matrices ``(N, N)``.
        margin (float): m, from 0 to 1. Default: 0.1.
        init (str): distribution of the first U and V: ``haar``, ``henaff``, ``cayley`` or ``identity``. Default:
            ``haar``.
        rebase_every (int or None): move their base points at every n-th optimiser step (see
            :func:`engram.maps.attach`). Default: None, never.

    Source: Vorontsov et al. 2017 (hard constraint); also Kerg (2022), Appendix D.3.
    """

    promise = "of singular values within the margin of 1"
    equation = "W = U diag(1 + 2m(sigmoid(p) - 1/2)) V^T"
    count = "N^2"
    apply_cost, build_cost = "N^2", "N^3"
    angles = slice(2)  # U and V
    source = "Vorontsov et al. 2017"

    def __init__(self, size: int, margin: float = 0.1, *, init: str = "haar", rebase_every: int | None = None) -> None:
        super().__init__(size)
        if not 0 <= margin <= 1:
            raise OptionError(f"margin must be in [0, 1], how far singular values may be from one; got {margin}")
        self.margin = margin
        self.left, self.right = self._sides(init, rebase_every)

    def _sides(self, init: str, rebase_every: int | None) -> tuple[Map, Map]:
        left, right = (Exponential(self.size, init=init, rebase_every=rebase_every) for _ in range(2))
        return left, right

    def singular_values(self, p: Tensor) -> Tensor:
        """s, from p."""
        return 1 + 2 * self.margin * (torch.sigmoid(p) - 0.5)

    def forward(self, left: Tensor, right: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        result: Tensor = (self.left(left) * self.singular_values(p)) @ self.right(right).mT
        return result

    def free(self, matrix: Tensor) -> tuple[Tensor, ...]:
        u, s, vt = torch.linalg.svd(matrix.detach())
        share = (s - 1) / (2 * self.margin) + 0.5 if self.margin else torch.full_like(s, 0.5)
        share = share.clamp(torch.finfo(s.dtype).eps, 1 - torch.finfo(s.dtype).eps)  # p stays finite
        return self._side(self.left, u), self._side(self.right, vt.mT), torch.logit(share)

    @staticmethod
    def _side(map: Map, matrix: Tensor) -> Tensor:
        found = map.right_inverse(matrix)
        return found if isinstance(found, Tensor) else found[0]

    def after_step(self, left: Tensor, right: Tensor, p: Tensor) -> None:  # type: ignore[override]
        self.left.after_step(left)
        self.right.after_step(right)

    def distance(self, matrix: Tensor) -> float:
        require_real(self, matrix)
        if not bool(torch.isfinite(matrix).all()):
            return math.inf
        return max(0.0, float((torch.linalg.svdvals(matrix.detach()) - 1).abs().max()) - self.margin)

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        sides = [self._side(m, m.sample(generator, dtype=torch.float64)) for m in (self.left, self.right)]
        return *sides, torch.zeros(self.size, dtype=torch.float64)

    def extra_repr(self) -> str:
        return f"{self.size}, margin={self.margin}"


class SpectralReflections(SpectralMargin):
    """W = U diag(s) V^T, singular values within m of one, U and V products of reflections: W x costs O((m1 + m2) N).

    Free parameters: ``m1(2N-m1+1)/2 + m2(2N-m2+1)/2 + N``.

    With fewer than N reflections on a side only what the map itself sampled can be assigned: a singular value
    decomposition leaves the order and signs of the columns of U and V open, and only some are of so few reflections.

    Args:
        size (int): N, for matrices ``(N, N)``.
        margin (float): m, from 0 to 1. Default: 0.1.
        reflections (tuple of two int or None): m1 and m2, each from 1 to N; None is N. Default: (None, None).

    Source: Zhang et al. 2018 (spectral RNN).
    """

    equation = "W = U diag(1 + 2r(sigmoid(p) - 1/2)) V^T, U and V of m1 and m2 reflections"
    count = "m1(2N-m1+1)/2 + m2(2N-m2+1)/2 + N"
    apply_cost, build_cost = "(m1+m2)N", "(m1+m2)N^2"
    source = "Zhang et al. 2018 (spectral RNN)"

    def __init__(
        self, size: int, margin: float = 0.1, reflections: tuple[int | None, int | None] = (None, None)
    ) -> None:
        if not isinstance(reflections, tuple | list) or len(reflections) != 2:
            raise OptionError(f"reflections must be two numbers, (m1, m2) of U and V; got {reflections!r}")
        self._reflections = tuple(size if m is None else m for m in reflections)
        super().__init__(size, margin)

    def _sides(self, init: str, rebase_every: int | None) -> tuple[Map, Map]:
        left, right = (Householder(self.size, m) for m in self._reflections)
        return left, right

    @property
    def has_inverse(self) -> bool:
        """With N reflections on both sides."""
        return self._reflections == (self.size, self.size)

    def free(self, matrix: Tensor) -> tuple[Tensor, ...]:
        if not self.has_inverse:
            raise self.no_inverse(" with fewer than N reflections on a side")
        return super().free(matrix)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, reflections={self._reflections}"

    def operate(self, x: Tensor, left: Tensor, right: Tensor, p: Tensor) -> Tensor:  # type: ignore[override]
        """W x for every row of x ``(..., N)``."""
        y = self.right.adjoint(x, right)  # type: ignore[operator]
        return self.left.operate(y * self.singular_values(p), left)
