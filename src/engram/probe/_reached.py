"""A state too large for its Jacobian W, seen within the directions that a signal reaches first.

Arnoldi's iteration from v gives Q (N, m) orthonormal, spanning v, W v, ..., W^(m-1) v, and H = Q' W Q, (m, m).
The eigenvalues of H approach the outer ones of W, its singular values are at most those of W, and its pseudospectra
approach those of W (Toh and Trefethen 1996).

Whoever reads only Q' h knows no more than whoever reads h, so with C = sum_{j<T} W^j W^j'

    J_kl >= (Q' W^k v)' (Q' C Q)^-1 (Q' W^l v),    Q' C Q = sum_{j<T} (W^j' Q)' (W^j' Q)

in the sense of the whole matrix: a lower bound of Fisher memory that takes products with W and W' only. It can be
loose: 99 % of the whole in an LSTM of 600 numbers, a fifth of it in S4D layers of 272 and 432.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engram.probe._fisher import FisherMemory
from engram.probe._fisher_steps import direction_of
from engram.probe._tangents import Step, push

DIRECTIONS = 128
"""m, at most."""
GONE = 1e-12
"""Noise whose share is smaller adds nothing more."""


@dataclass(frozen=True)
class Reached:
    """Q, H, and the way there: the step h -> step(h, x) near one state (N,) and one input (D,)."""

    step: Step
    state: Tensor
    input: Tensor
    signal: Tensor
    basis: Tensor
    matrix: Tensor

    @property
    def size(self) -> int:
        return len(self.state)

    def fisher_memory(self, length: int) -> FisherMemory:
        """The lower bound over a process that began ``length`` steps ago, noise of variance 1."""
        now, seen, growth = self.signal, [], []
        for _ in range(length):
            seen.append(self.basis.mT @ now.double())
            growth.append(float(now.double().square().sum()))
            now = _times(self.step, self.state, self.input, now)
        white = torch.linalg.solve_triangular(
            torch.linalg.cholesky(self._covariance(length)), torch.stack(seen, 1), upper=False
        )
        matrix = (white.mT @ white).numpy()
        method = f"{self.basis.shape[1]} of {self.size:,} directions"
        return FisherMemory(
            matrix, None, float(matrix.trace()), np.array(growth), self.size, 1.0, length, method, 0.0, whole=False
        )

    def _covariance(self, length: int) -> Tensor:
        """Q' C Q, ``(m, m)``, by products with W' from the left."""
        total, rows = torch.zeros_like(self.matrix), self.basis.mT.to(self.state)
        for _ in range(length):
            new = rows.double() @ rows.double().mT
            total += new
            if float(new.trace()) < GONE * float(total.trace()):
                break
            rows = _from_left(self.step, self.state, self.input, rows)
        return total


def reached(step: Step, state: Tensor, input: Tensor) -> Reached:
    """Arnoldi from v = d step / d input, all inputs alike, orthogonalised twice; it ends where nothing new comes."""
    along = direction_of(None, input)
    still = state.new_zeros(1, len(state), 1)
    signal = push(step, state[None], input[None], still, along[None, :, None])[1][0, :, 0]
    columns = [signal.double() / signal.double().norm().clamp_min(1e-300)]
    images: list[Tensor] = []
    while len(images) < min(DIRECTIONS, len(state)):
        images.append(_times(step, state, input, columns[-1].to(state)).double())
        basis, rest = torch.stack(columns, 1), images[-1]
        for _ in range(2):
            rest = rest - basis @ (basis.mT @ rest)
        if len(columns) == DIRECTIONS or float(rest.norm()) <= torch.finfo(state.dtype).eps * float(images[-1].norm()):
            break
        columns.append(rest / rest.norm())
    basis = torch.stack(columns, 1)
    return Reached(step, state, input, signal, basis, basis.mT @ torch.stack(images, 1))


def _times(step: Step, state: Tensor, input: Tensor, vector: Tensor) -> Tensor:
    """W u."""
    return push(step, state[None], input[None], vector[None, :, None])[1][0, :, 0]


def _from_left(step: Step, state: Tensor, input: Tensor, rows: Tensor) -> Tensor:
    """u' W for each of the rows ``(m, N)``."""
    with torch.enable_grad():
        before = state.expand(len(rows), -1).clone().requires_grad_()
        after = step(before, input.expand(len(rows), -1))
        (found,) = torch.autograd.grad(after, before, rows, materialize_grads=True)
    return found.detach()
