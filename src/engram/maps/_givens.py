"""Products of rotations in two coordinates."""

import cmath
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import DTypeError, ManifoldError, OptionError, check_size
from engram.maps._clements import brick_wall, decompose
from engram.maps._map import FreeParameters
from engram.maps._polar import orthogonality_error
from engram.maps._solved import Solved


def brick_pairs(size: int, layers: int) -> list[Tensor]:
    """The first coordinate of each pair, layer by layer: (1,2),(3,4),.. and (2,3),(4,5),.. in turn."""
    return [torch.arange(layer % 2, max(layer % 2, size - 1), 2) for layer in range(layers)]


def fft_pairs(size: int) -> list[tuple[Tensor, int]]:
    """First coordinates and distance of each layer of the FFT-style network, for any N.

    Distances are the powers of two below N, halving from layer to layer; a coordinate without a partner passes.
    """
    distances = [2**k for k in reversed(range(max(1, math.ceil(math.log2(size)))))] if size > 1 else []
    coordinate = torch.arange(size)
    return [(coordinate[(coordinate & d == 0) & (coordinate + d < size)], d) for d in distances]


class Givens(Solved):
    """W = D F_L ... F_2 F_1: layers of rotations of disjoint pairs of coordinates, then a diagonal of phases.

    R(theta, phi) = [[cos, -e^{i phi} sin], [sin, e^{i phi} cos]] on each pair, the phase on the input side: with D
    applied last this reaches all of U(N) at L = N, which the phase on the output side does not. The real form has
    phi = 0 and no D. Free parameters (real): theta of all rotations; for the complex form then phi, and omega of
    D = diag(e^{i omega}). A layer is two elementwise products and one permutation: O(LN) per vector.

    Args:
        size (int): N, any (the source's program needs it even, or a power of two).
        layers (int, str or None): L, the capacity, at least 1; or ``fft``, ceil(log2 N) layers at distances N/2, N/4,
            ... Default: None, which is N: every rotation is reached.
        complex (bool): unitary matrices in place of orthogonal ones. Default: False.

    Source: Jing et al. 2017 (EURNN); also Kerg (2022), Appendix D.3.
    """

    promise = "orthogonal with determinant 1 (unitary if complex), a product of Givens rotations"
    equation = "W = D F_L ... F_1, F_l a layer of rotations of pairs"
    count = "about LN/2 real, LN + N complex"
    apply_cost, build_cost = "LN", "L N^2"
    source = "Jing et al. 2017 (EURNN)"
    partner: Tensor
    slot: Tensor
    side: Tensor

    def __init__(self, size: int, layers: int | str | None = None, complex: bool = False) -> None:
        super().__init__(size)
        if isinstance(layers, str) and layers != "fft":
            raise OptionError(f"layers must be a whole number of at least 1, or 'fft'; got {layers!r}")
        self.layers = size if layers is None else layers
        self.complex = complex
        if isinstance(self.layers, str):
            pairs = fft_pairs(size)
        else:
            pairs = [(first, 1) for first in brick_pairs(size, check_size("layers", self.layers, most=10**5))]
        self.rotations = sum(len(first) for first, _ in pairs)
        # A layer is y = c * x + s * x[partner]; `slot` says which rotation a coordinate belongs to, the last entry
        # of the padded parameters (angle 0) if to none.
        partner = torch.arange(size).repeat(len(pairs), 1)
        slot = torch.full_like(partner, self.rotations)
        side = torch.zeros_like(
            partner, dtype=torch.get_default_dtype()
        )  # -1 for the first of a pair, +1 for the second
        start = 0
        for layer, (first, distance) in enumerate(pairs):
            second, number = first + distance, torch.arange(start, start + len(first))
            partner[layer, first], partner[layer, second] = second, first
            slot[layer, first], slot[layer, second] = number, number
            side[layer, first], side[layer, second] = -1.0, 1.0
            start += len(first)
        self.register_buffer("partner", partner, persistent=False)
        self.register_buffer("slot", slot, persistent=False)
        self.register_buffer("side", side, persistent=False)

    @property
    def free_count(self) -> int:
        return 2 * self.rotations + self.size if self.complex else self.rotations

    def operate(self, x: Tensor, free: Tensor) -> Tensor:  # type: ignore[override]
        """W x for every row of x ``(..., N)``, in O(LN) per row."""
        theta = torch.cat([free[: self.rotations], free.new_zeros(1)])[self.slot]
        cosine, sine = theta.cos(), theta.sin() * self.side
        if not self.complex:
            for c, s, partner in zip(cosine, sine, self.partner, strict=True):
                x = c * x + s * x[..., partner]
            return x
        phase = torch.cat([free[self.rotations : 2 * self.rotations], free.new_zeros(1)])[self.slot]
        turn = torch.polar(torch.ones_like(phase), torch.where(self.side > 0, phase, 0))  # of the second of each pair
        x = x.to(turn.dtype)
        for c, s, e, partner in zip(cosine, sine, turn, self.partner, strict=True):
            x = e * x
            x = c * x + s * x[..., partner]
        omega = free[2 * self.rotations :]
        return torch.polar(torch.ones_like(omega), omega) * x

    def forward(self, free: Tensor) -> Tensor:  # type: ignore[override]
        eye = torch.eye(self.size, dtype=free.dtype, device=free.device)
        return self.operate(eye, free).mT.contiguous()

    @property
    def has_inverse(self) -> bool:
        """At full capacity, L >= N."""
        return not isinstance(self.layers, str) and self.layers >= self.size

    def free(self, matrix: Tensor) -> FreeParameters:
        """By a formula at full capacity (L >= N), else by search."""
        if not self.has_inverse:
            return super().free(matrix)
        rotations, d = decompose(matrix)
        wall = brick_wall(rotations, self.size, self.size)
        if wall is None:
            raise ManifoldError(f"this matrix does not fit into {self.layers} layers of rotations")
        theta, phi = wall
        used = (self.side[: self.size] < 0).cpu()
        unused = self.rotations - int(used.sum())  # layers beyond N stay at angle zero
        angles = [F.pad(table[used], (0, unused)) for table in ((theta, phi) if self.complex else (theta,))]
        return (
            torch.cat(
                [*angles, torch.tensor([cmath.phase(x) for x in d] if self.complex else [], dtype=torch.float64)]
            ),
        )

    def distance(self, matrix: Tensor) -> float:
        if matrix.is_complex() != self.complex:
            raise DTypeError(f"Givens(complex={self.complex}) got a matrix of {matrix.dtype}. Set complex to match")
        error = orthogonality_error(matrix.detach())
        turned_over = not self.complex and math.isfinite(error) and float(torch.linalg.det(matrix.detach())) < 0
        return max(error, 2.0) if turned_over else error  # rotations have determinant one

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """All angles uniform in (-pi, pi)."""
        return ((torch.rand(self.free_count, generator=generator, dtype=torch.float64) * 2 - 1) * math.pi,)

    def extra_repr(self) -> str:
        return f"{self.size}, layers={self.layers!r}, complex={self.complex}"
