"""The directions of a large state that a signal reaches first, where the whole Jacobian W would be too large.

Arnoldi's iteration from v gives Q (N, m) with orthonormal columns that span v, W v, ..., W^(m-1) v, and H = Q' W Q (m,
m). The eigenvalues of H approach the outer ones of W, its singular values are at most those of W, and its pseudospectra
approach those of W (Toh and Trefethen 1996). Only products with W are needed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.probe._linear import signal_direction
from engram.probe._tangents import Step, step_with_tangents

DIRECTIONS = 128
"""m, at most."""


@dataclass(frozen=True)
class Reached:
    """Q and H of the step h -> step(h, x) near one state (N,) and one input (D,).

    signal: v (N,). basis: Q (N, m). matrix: H (m, m).
    """

    step: Step
    state: Tensor
    input: Tensor
    signal: Tensor
    basis: Tensor
    matrix: Tensor

    @property
    def size(self) -> int:
        """N, the numbers of the state."""
        return len(self.state)

    def times(self, vector: Tensor) -> Tensor:
        """W u of a vector u (N,)."""
        return _times(self.step, self.state, self.input, vector)

    def times_transposed(self, rows: Tensor) -> Tensor:
        """u' W for each row u' of (m, N)."""
        with torch.enable_grad():
            before = self.state.expand(len(rows), -1).clone().requires_grad_()
            after = self.step(before, self.input.expand(len(rows), -1))
            (found,) = torch.autograd.grad(after, before, rows, materialize_grads=True)
        return found.detach()


def reached(step: Step, state: Tensor, input: Tensor) -> Reached:
    """Arnoldi's iteration from v = d step / d input, all inputs alike.

    Each new direction is made orthogonal to the others twice, against rounding; the iteration ends where W leads to no
    new direction, or at m = 128.
    """
    along = signal_direction(None, input)
    still = state.new_zeros(1, len(state), 1)
    signal = step_with_tangents(step, state[None], input[None], still, along[None, :, None])[1][0, :, 0]
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
    return step_with_tangents(step, state[None], input[None], vector[None, :, None])[1][0, :, 0]
