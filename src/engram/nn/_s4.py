"""The structured state space model, S4: diagonal plus low rank (DPLR), its kernel without a pole."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engram.errors import check_choice
from engram.maps import transformed
from engram.nn._hippo import legs, low_rank, normal_basis
from engram.nn._state_space import DiscreteSystem, Pairs, StateSpace, complex_of

BLOCK = 64
"""Steps that are gathered by one product before the state matrix is applied."""
AT_ONCE = 1 << 21
"""Numbers of the Cauchy matrix that are alive at a time."""


@dataclass(frozen=True, eq=False)
class LowRankSystem(DiscreteSystem):
    """A = (2/D - L)^-1 (2/D + L), L = diag(lambda) - p p^*, in discrete time by the bilinear rule.

    Where powers of A are needed, A is a real matrix ``(H, N, N)`` on the real and imaginary parts of the kept states
    (p p^* mixes the pairs, so that it is linear over the reals only).
    """

    rates: Tensor  # lambda (H, N/2)
    p: Tensor  # (H, N/2)
    b: Tensor  # (H, N/2), of continuous time
    c: Tensor
    dt: Tensor  # (H, 1)
    squares: list[Tensor] = field(default_factory=list)  # A, A^2, A^4, ..., as far as they were asked for

    def step(self, input: Tensor, state: Tensor) -> Tensor:
        """s' = d v - d p (p^* d v)/(1 + p^* d p), v = (2/D + lambda) s - p (p^* s) + 2 b u, d = 1/(2/D - lambda)."""
        d = 1 / (2 / self.dt - self.rates)
        v = (2 / self.dt + self.rates) * state - self.p * self._along_p(state) + 2 * self.b * input[..., None]
        return d * v - d * self.p * (self._along_p(d * v) / (1 + self._along_p(d * self.p)))

    def in_pairs(self) -> Pairs:
        """By the whole matrix: O(N^2) per step and feature."""
        a, b, c = self._squares(0), self._krylov(1)[..., 0], self._row()

        def step(input: Tensor, state: Tensor) -> Tensor:
            new = (a @ state.flatten(-2)[..., None])[..., 0] + b * input[..., None]
            return new.unflatten(-1, (-1, 2))

        def read(state: Tensor, channel: int) -> Tensor:
            return (c[:, channel] * state.flatten(-2)).sum(-1)

        return Pairs(step, read)

    def _along_p(self, state: Tensor) -> Tensor:
        """p^* s over both halves of the pairs, a real number."""
        return 2 * (_conjugate(self.p) * state).sum(-1, keepdim=True).real

    def kernel(self, length: int) -> Tensor:
        r"""By the generating function at the roots of unity z = exp(-i t), with C~ = C (1 - A^length):

        K^(z) = 2 k(C~ b) - 2 k(C~ p) (1 + z) k(p^* b) / (1 + (1 + z) k(p^* p)),  k(v) = sum v/q, q = 2/D (1 - z) -
        (1 + z) lambda, the sum over both halves of the pairs. Nothing is infinite at z = -1.
        """
        row = self._row()
        c = _conjugate(_complex(row - row @ self._power(length))).transpose(0, 1) / 2
        p = _conjugate(self.p)
        weights = torch.stack([*(c * self.b), *(c * self.p), p * self.b, p * self.p], 1)
        angles = torch.arange(length // 2 + 1, device=self.dt.device, dtype=self.dt.dtype) * (2 * math.pi / length)
        sums = self._cauchy(weights, angles)
        n = len(self.c)
        around = 1 + torch.polar(torch.ones_like(angles), -angles)
        spectrum = sums[:, :n] - sums[:, n : 2 * n] * (around * sums[:, -2:-1] / (1 + around * sums[:, -1:]))
        return torch.fft.irfft(2 * spectrum, n=length).transpose(0, 1)

    def _cauchy(self, weights: Tensor, angles: Tensor) -> Tensor:
        """k(v) for v ``(H, V, N/2)`` at z = exp(-i angle): ``(H, V, F)``; in pieces, of which none is kept."""
        pieces = angles.split(max(1, AT_ONCE // self.rates.numel()))
        if len(pieces) == 1 or transformed():
            return torch.cat([self._cauchy_piece(weights, piece) for piece in pieces], -1)
        run = [checkpoint(self._cauchy_piece, weights, piece, use_reentrant=False) for piece in pieces]
        return torch.cat(run, -1)

    def _cauchy_piece(self, weights: Tensor, angles: Tensor) -> Tensor:
        r"""A pair together, with X = 4/D sin(t/2), Y = 2 cos(t/2):
        v/q + v~/q~ = exp(i t/2) (i X 2 Re v - Y 2 Re(v lambda~)) / (Y^2 |lambda|^2 - X^2 - 2 i X Y Re lambda)."""
        x, y = 4 / self.dt[..., None] * torch.sin(angles / 2), 2 * torch.cos(angles / 2)
        size, decay = self.rates.abs()[..., None], self.rates.real[..., None]
        one_over = torch.complex((y * size - x) * (y * size + x), -2 * x * y * decay).reciprocal()  # (H, N/2, F)
        real = 2 * torch.cat([weights.real, (weights * _conjugate(self.rates)[:, None]).real], 1)
        sums = _complex(real @ torch.view_as_real(one_over).flatten(2))
        with_x, with_y = sums.chunk(2, 1)
        return torch.polar(torch.ones_like(angles), angles / 2) * (1j * x * with_x - y * with_y)

    def collect(self, ages: Tensor) -> Tensor:
        """First the inputs of each block of steps, then blocks two by two, with A^m, A^2m, A^4m, ..."""
        block = min(BLOCK, 1 << (len(ages) - 1).bit_length())
        blocks = 1 << (-(-len(ages) // block) - 1).bit_length()
        padded = F.pad(ages.permute(2, 0, 1), (0, 0, 0, block * blocks - len(ages)))  # (H, blocks*m, B)
        level = block.bit_length() - 1
        ends = self._krylov(block) @ padded.unflatten(1, (blocks, block)).transpose(1, 2).flatten(2)
        ends = ends.unflatten(2, (blocks, -1))  # (H, N, blocks, B)
        while blocks > 1:
            older = (self._squares(level) @ ends[:, :, 1::2].flatten(2)).unflatten(2, (blocks // 2, -1))
            ends, blocks, level = ends[:, :, ::2] + older, blocks // 2, level + 1
        return _complex(ends[:, :, 0].permute(2, 0, 1))

    def response(self, state: Tensor, length: int) -> Tensor:
        block = min(BLOCK, 1 << (length - 1).bit_length())
        level = block.bit_length() - 1
        states = self._squares(0) @ _real(state).permute(1, 2, 0)  # A s, (H, N, B)
        states = states[:, :, None]  # (H, N, blocks, B): A s, A^(m+1) s, ...
        while states.shape[2] * block < length:
            later = (self._squares(level) @ states.flatten(2)).unflatten(2, states.shape[2:])
            states, level = torch.cat([states, later], 2), level + 1
        rows = self._row()[:, :1]  # (H, 1, N)
        for k in range(block.bit_length() - 1):
            rows = torch.cat([rows, rows @ self._squares(k)], 1)
        said = (rows @ states.flatten(2)).unflatten(2, states.shape[2:])  # (H, m, blocks, B)
        return said.transpose(1, 2).flatten(1, 2)[:, :length].permute(1, 2, 0)

    def later(self, state: Tensor, steps: Tensor, most: int) -> Tensor:
        now = _real(state).permute(1, 2, 0)  # (H, N, B)
        for k in range(most.bit_length()):
            now = torch.where((steps >> k) % 2 == 1, self._squares(k) @ now, now)
        return _complex(now.permute(2, 0, 1))

    def _squares(self, k: int) -> Tensor:
        """A^(2^k); A itself by steps from every unit state."""
        if not self.squares:
            units = _complex(torch.eye(2 * self.p.shape[-1], dtype=self.dt.dtype, device=self.dt.device))
            self.squares.append(_real(self.step(self.dt.new_zeros(1, 1), units[:, None])).permute(1, 2, 0))
        while len(self.squares) <= k:
            self.squares.append(self.squares[-1] @ self.squares[-1])
        return self.squares[k]

    def _power(self, exponent: int) -> Tensor:
        factors = [self._squares(k) for k in range(exponent.bit_length()) if exponent >> k & 1]
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
        return product

    def _krylov(self, count: int) -> Tensor:
        """B, A B, ..., A^(count-1) B: ``(H, N, count)``, count a power of two."""
        columns = _real(self.step(torch.ones_like(self.dt.mT), torch.zeros_like(self.b))).permute(1, 2, 0)
        for k in range(count.bit_length() - 1):
            columns = torch.cat([columns, self._squares(k) @ columns], -1)
        return columns

    def _row(self) -> Tensor:
        """C as rows on real and imaginary parts, 2 Re(C s) = row (Re s, Im s): ``(H, channels, N)``."""
        return _real(2 * _conjugate(self.c)).transpose(0, 1)


def _conjugate(numbers: Tensor) -> Tensor:
    """Written out: vmap cannot take torch's own apart."""
    return torch.complex(numbers.real, -numbers.imag)


def _real(numbers: Tensor) -> Tensor:
    """``(..., N/2)`` complex to ``(..., N)`` real."""
    return torch.view_as_real(numbers).flatten(-2)


def _complex(numbers: Tensor) -> Tensor:
    """``(..., N)`` real to ``(..., N/2)`` complex."""
    return complex_of(numbers.unflatten(-1, (-1, 2)))


class LowRankSpace(StateSpace):
    """The weights of S4: those of S4D and weight_p ``(S, N/2, 2)``; lambda, P and B start as HiPPO-LegS.

    The imaginary part of B is clipped to [-2, 2]. C itself is trained, not C (1 - A^length), which would belong to
    sequences of one length.
    """

    def __init__(self, features: int, state_size: int, *, init: str, discretization: str, **options: Any) -> None:
        super().__init__(features, state_size, **options)
        check_choice("init of S4", init, ("legs",))
        check_choice("discretization of S4", discretization, ("bilinear",))
        self.weight_p = nn.Parameter(torch.empty_like(self.weight_b))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        size = 2 * self.pairs
        rates, basis = normal_basis(size)
        b, p = (basis.mH @ vector.to(basis.dtype) for vector in (legs(size)[1], low_rank(size)))
        b = torch.complex(b.real, b.imag.clamp(-2, 2))
        self.initialise(rates.expand(self.copies, -1), b.expand(self.copies, -1))
        self.weight_p.copy_(torch.view_as_real(p))

    def discretize(self) -> LowRankSystem:
        b, p = (self.shared(complex_of(weight)) for weight in (self.weight_b, self.weight_p))
        return LowRankSystem(self.rates, p, b, complex_of(self.weight_c), self.step_sizes)
