"""Orthogonal networks that try to be memoryless, y_t = act(x_t): the example of both lower bounds."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from engram.maps import haar

STEPS, SEQUENCES = 4, 64  # of the sequences it learns from
RATE = 0.02


class Candidate(NamedTuple):
    """h_t = act(W h_{t-1} + F x_t + b) from h = 0, and y_t = C h_t; float64, leading axes for several at once."""

    W: Tensor
    """``(..., N, N)``."""
    F: Tensor
    """``(..., N, n)``."""
    b: Tensor
    """``(..., N)``."""
    C: Tensor
    """``(..., n, N)``."""

    def outputs(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """y ``(..., T, B, n)`` under inputs ``(T, B, n)``."""
        h, outputs = torch.zeros(()), list[Tensor]()
        for step in x.double():
            fresh = step @ self.F.mT + self.b[..., None, :]
            h = activation(fresh + h @ self.W.mT if outputs else fresh)
            outputs.append(h @ self.C.mT)
        return torch.stack(outputs, -3)


class Found(NamedTuple):
    """The best of a search."""

    candidate: Candidate
    residual: float
    """The root mean square of y - act(x), on sequences it has not seen."""
    share: float
    """The same over that of the best constant, the standard deviation of act(x)."""


def search_memoryless(
    activation: Callable[[Tensor], Tensor],
    inputs: int,
    states: int,
    *,
    restarts: int = 64,
    rounds: int = 1000,
    seed: int = 0,
) -> Found:
    """Train orthogonal networks of N states on y_t = act(x_t), x uniform in [-2, 2], n numbers a step; keep the best.

    W = Q exp(A - A^T), Q of either determinant; Adam; all restarts at once. Evidence only: what a search does not find
    may still be there (spec/unitary-equivalence.md 3.2, 4.2).
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(restarts, *shape, generator=generator, dtype=torch.float64)

    base = torch.stack([haar(states, generator) for _ in range(restarts)])  # Haar on O(N): of either determinant
    free = [torch.zeros_like(base), normal(states, inputs), normal(states), normal(inputs, states)]
    free = [tensor.requires_grad_() for tensor in free]
    optimizer = torch.optim.Adam(free, RATE)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rounds)

    def made() -> Candidate:
        skew, *others = free
        return Candidate(base @ torch.linalg.matrix_exp(skew - skew.mT), *others)

    def errors(candidate: Candidate) -> tuple[Tensor, Tensor]:
        """The mean square of each restart, and that of the best constant."""
        x = 4 * torch.rand(STEPS, SEQUENCES, inputs, generator=generator, dtype=torch.float64) - 2
        wanted = activation(x)
        return (candidate.outputs(x, activation) - wanted).square().mean((-3, -2, -1)), wanted.var()

    for _ in range(rounds):
        optimizer.zero_grad()
        errors(made())[0].sum().backward()
        optimizer.step()
        rates.step()
    with torch.no_grad():
        candidate = made()
        error, variance = (
            torch.stack(each).mean(0) for each in zip(*(errors(candidate) for _ in range(8)), strict=True)
        )
    best = int(error.argmin())
    residual = float(error[best].sqrt())
    return Found(Candidate(*(part[best].detach() for part in candidate)), residual, residual / float(variance.sqrt()))
