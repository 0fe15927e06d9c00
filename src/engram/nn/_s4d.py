"""The diagonal state space model, S4D."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice
from engram.loops import powers
from engram.nn._hippo import INITS, diagonal
from engram.nn._state_space import DiscreteSystem, Pairs, StateSpace, complex_of

METHODS = ("bilinear", "zoh")


def real_product(left: Tensor, right: Tensor) -> Tensor:
    """Re(left @ right) of complex matrices, as one product of real ones."""
    return torch.cat([left.real, left.imag], -1) @ torch.cat([right.real, -right.imag], -2)


@dataclass(frozen=True, eq=False)
class DiagonalSystem(DiscreteSystem):
    """A = diag(a): every power is a product of two from short tables, a^(im + j) = a^(im) a^j.

    So kernels and states are products of real matrices: O(N) per step and feature, and nothing of the size of T x N.
    """

    a: Tensor  # (H, N/2)
    b: Tensor  # (H, N/2)
    c: Tensor

    def step(self, input: Tensor, state: Tensor) -> Tensor:
        return self.a * state + self.b * input[..., None]

    def in_pairs(self) -> Pairs:
        (a, ai), (b, bi), (c, ci) = ((z.real.clone(), z.imag.clone()) for z in (self.a, self.b, self.c))

        def step(input: Tensor, state: Tensor) -> Tensor:
            re, im, u = state[..., 0], state[..., 1], input[..., None]
            return torch.stack([a * re - ai * im + b * u, a * im + ai * re + bi * u], -1)

        def read(state: Tensor, channel: int) -> Tensor:
            return 2 * (c[channel] * state[..., 0] - ci[channel] * state[..., 1]).sum(-1)

        return Pairs(step, read)

    def kernel(self, length: int) -> Tensor:
        inner, outer = self._tables(length)
        left = (self.c * self.b)[..., None] * outer
        return 2 * real_product(left.mT, inner).flatten(-2)[..., :length]

    def collect(self, ages: Tensor) -> Tensor:
        inner, outer = self._tables(len(ages))
        block, blocks = inner.shape[-1], outer.shape[-1]
        rows = ages.permute(
            2, 1, 0
        ).contiguous()  # padding by nothing keeps strides, which the compiler does not foresee
        padded = F.pad(rows, (0, block * blocks - len(ages))).unflatten(-1, (blocks, block))
        table = torch.view_as_real(inner).transpose(1, 2).flatten(2)  # (H, m, N)
        ends = (padded.flatten(1, 2) @ table).unflatten(1, padded.shape[1:3])
        sums = complex_of(ends.unflatten(-1, (-1, 2))) * outer.mT[:, None]  # (H, B, blocks, N/2)
        return self.b * sums.sum(2).transpose(0, 1)

    def response(self, state: Tensor, length: int) -> Tensor:
        inner, outer = self._tables(length)
        left = (self.c[0] * self.a * state).transpose(0, 1)[:, :, None] * outer.mT[:, None]
        said = real_product(left.flatten(1, 2), inner).unflatten(1, left.shape[1:3])
        return 2 * said.flatten(2)[..., :length].permute(2, 1, 0)

    def later(self, state: Tensor, steps: Tensor, most: int) -> Tensor:
        inner, outer = self._tables(most + 1)
        block = inner.shape[-1]
        return state * (inner[..., steps % block] * outer[..., steps // block]).permute(2, 0, 1)

    def _tables(self, count: int) -> tuple[Tensor, Tensor]:
        """a^j for j < m and a^(im), with a block m near sqrt(count): ``(H, N/2, m)``, ``(H, N/2, ceil(count/m))``."""
        block = 1
        while block * block < count:
            block *= 2
        inner = powers(self.a, block)
        return inner, powers(inner[..., -1] * self.a, -(-count // block))


class DiagonalSpace(StateSpace):
    """The weights of S4D: b starts at one, lambda by ``init`` (Gu et al. 2022)."""

    def __init__(self, features: int, state_size: int, *, init: str, discretization: str, **options: Any) -> None:
        super().__init__(features, state_size, **options)
        self.init = check_choice("init", init, INITS)
        self.discretization = check_choice("discretization", discretization, METHODS)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        rates = diagonal(self.init, 2 * self.pairs).expand(self.copies, -1)
        self.initialise(rates, torch.ones_like(rates))

    def discretize(self) -> DiagonalSystem:
        """Zero-order hold, a = exp(D l), b = (exp(D l) - 1)/l B; or bilinear, a = (1 + D l/2)/(1 - D l/2),
        b = D B/(1 - D l/2), with l = lambda and D = Delta."""
        rates, b, c = self.rates, self.shared(complex_of(self.weight_b)), complex_of(self.weight_c)
        half = self.step_sizes * rates / 2
        if self.discretization == "bilinear":
            return DiagonalSystem((1 + half) / (1 - half), self.step_sizes * b / (1 - half), c)
        root = torch.exp(half)  # exp(z) - 1 = 2 sinh(z/2) exp(z/2): exact also where z is small
        return DiagonalSystem(root * root, 2 * torch.sinh(half) * root / rates * b, c)
