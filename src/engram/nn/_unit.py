"""States at a size of one, with the logarithm of what they were: how long products neither overflow nor vanish."""

import torch
from torch import Tensor


def unit_rms(state: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The state over its root mean square along ``axes``, and the logarithm of that, with axes of length 1.

    The largest entry is taken out before the squares, which would overflow or vanish long before the state does. A
    state of zeros has no scale: it stays, with a logarithm of 0 and a gradient of 0.
    """
    peak = state.detach().abs().amax(axes, keepdim=True)
    peak = torch.where(peak > 0, peak, 1.0)
    state = state / peak
    square = state.abs().square().mean(axes, keepdim=True)
    square = torch.where(square > 0, square, 1.0)
    return state / square.sqrt(), peak.log() + square.log() / 2
