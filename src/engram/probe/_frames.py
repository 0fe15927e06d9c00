"""Growth rates of small differences along paths: an orthonormal frame, carried along and made orthonormal again."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from engram.probe._tangents import Step, step_with_tangents

Jacobian = Callable[[Tensor, Tensor], Tensor]
"""(state (B, N), input (B, D)) -> d next state / d state (B, N, N)."""


def growth_rates(
    step: Step, state: Tensor, inputs: Tensor, count: int, burn_in: int, interval: int, jacobian: Jacobian | None
) -> np.ndarray:
    """log |R_ii| / interval of each QR decomposition after the burn-in, (B, intervals, count).

    A direction that shrinks within one interval below the rounding of the largest one is dead: minus infinity.
    """
    frame, largest = _first_frame(state, count), 0.0
    rounding = state.shape[1] * torch.finfo(state.dtype).eps
    found = []
    for piece in _pieces(inputs.shape[1], burn_in, interval):
        for time in range(*piece):
            if jacobian is None:
                state, frame = step_with_tangents(step, state, inputs[:, time], frame)
            else:
                frame = jacobian(state, inputs[:, time]).detach() @ frame
                state = step(state, inputs[:, time]).detach()
        largest = max(largest, float(frame.norm(dim=1).max()))
        wide = torch.promote_types(frame.dtype, torch.float32)  # LAPACK has no numbers of 16 bits
        orthonormal, triangle = torch.linalg.qr(frame.to(wide))
        frame = orthonormal.to(frame.dtype)
        if piece[0] >= burn_in:
            gains = triangle.diagonal(dim1=-2, dim2=-1).double().abs()
            found.append(gains.where(gains > rounding * largest, 0).log() / interval)
    return torch.stack(found, 1).numpy()


def _first_frame(state: Tensor, count: int) -> Tensor:
    """(B, N, count), orthonormal, random so that no direction is missed; torch's own generator is not touched."""
    start = torch.randn(state.shape[1], count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.linalg.qr(start)[0].to(state).expand(len(state), -1, -1)


def _pieces(length: int, burn_in: int, interval: int) -> list[tuple[int, int]]:
    """(start, end) between reorthonormalisations; the burn-in ends with a piece, a last short piece is left out."""
    before = [(start, min(start + interval, burn_in)) for start in range(0, burn_in, interval)]
    return before + [(end - interval, end) for end in range(burn_in + interval, length + 1, interval)]
