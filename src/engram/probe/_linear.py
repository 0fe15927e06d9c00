"""A step near one of its states: h -> W h + v s, for the parts that measure matrices."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.errors import ShapeError
from engram.probe._tangents import Step, step_with_tangents

LARGEST_JACOBIAN = 512
"""The most numbers of a state whose whole Jacobian is computed."""


def linearise(step: Step, state: Tensor, input: Tensor, direction: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """W = d step / d state (N, N) and v = d step / d input . direction (N,) at one state and one input.

    Near that state the step is h -> W h + v s, which is what :func:`engram.probe.fisher_memory` takes.

    Args:
        step: from states (B, N) and inputs (B, D) to the next states (B, N).
        state: (N,).
        input: (D,).
        direction: (D,), how the signal s changes the input. Default: all inputs alike, length 1.

    >>> from engram.probe import fisher_memory
    >>> line, into = torch.diag(torch.ones(2, dtype=torch.float64), -1), torch.eye(3, dtype=torch.float64)[:1]
    >>> step = lambda h, x: torch.tanh(h @ line.T + x @ into)
    >>> W, v = linearise(step, torch.zeros(3).double(), torch.zeros(1).double())
    >>> fisher_memory(W, v, lags=3).curve.round(4).tolist()
    [1.0, 0.5, 0.3333]
    """
    if state.ndim != 1 or input.ndim != 1:
        raise ShapeError(f"one state (N,) and one input (D,) are needed, got {state.shape} and {input.shape}")
    size, along = len(state), signal_direction(direction, input)
    frame = torch.eye(size, size + 1, dtype=state.dtype)
    input_frame = torch.cat([along.new_zeros(len(along), size), along[:, None]], 1)
    moved = step_with_tangents(step, state[None], input[None], frame[None], input_frame[None])[1][0]
    return moved[:, :size], moved[:, size]


def signal_direction(direction: Tensor | None, input: Tensor) -> Tensor:
    """How a signal changes the inputs ``(D,)``. Default: all alike, length 1."""
    if direction is None:
        return torch.full_like(input, len(input) ** -0.5)
    if direction.shape != input.shape:
        raise ShapeError(f"direction must have the shape of one input, {tuple(input.shape)}, got {direction.shape}")
    return direction.to(input)


@dataclass(frozen=True)
class Tangent:
    """The linear step h -> W h + v s near a state.

    matrix: W ``(N, N)``. signal: v ``(N,)``. linear: whether the model is this linear step everywhere.
    """

    matrix: Tensor
    signal: Tensor
    linear: bool

    @property
    def radius(self) -> float:
        """The spectral radius of W."""
        return float(torch.linalg.eigvals(self.matrix.double()).abs().max())
