"""Orthogonal networks trained to be memoryless, y_t = act(x_t): the example in the proofs of two lower bounds.

Source of the bounds: Emami et al. (2019), Theorems 3.2 and 4.1 (Theorems 2 and 3 of the poster).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from engram.maps import haar

STEPS, SEQUENCES = 4, 64  # of a training batch
RATE = 0.02


class Candidate(NamedTuple):
    """A network h_t = act(W h_{t-1} + F x_t + b), y_t = C h_t from state 0; float64; leading axes: several networks."""

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


class SearchResult(NamedTuple):
    """The best network of a search."""

    candidate: Candidate
    """Its weights."""
    residual: float
    """The root mean square of y - act(x) on new sequences."""
    share: float
    """``residual`` divided by the standard deviation of act(x), the error of the best constant."""


def search_memoryless(
    activation: Callable[[Tensor], Tensor],
    inputs: int,
    states: int,
    *,
    restarts: int = 64,
    rounds: int = 1000,
    seed: int = 0,
) -> SearchResult:
    """Train orthogonal networks of N states on y_t = act(x_t), x uniform in [-2, 2]^n; return the best.

    W = Q exp(A - A^T), Q random orthogonal of either determinant; Adam; all restarts at once. Evidence only: what the
    search does not find may still exist.

    Args:
        activation: act, of the network and of the target.
        inputs: n, numbers per step.
        states: N.
        restarts: networks that are trained.
        rounds: training steps of each.
        seed: random seed for weights and data.
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
    return SearchResult(
        Candidate(*(part[best].detach() for part in candidate)), residual, residual / float(variance.sqrt())
    )
