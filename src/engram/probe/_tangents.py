"""How small changes pass through one step, for any step: forward mode where it can be had, else reverse mode.

Rows of a batch do not see each other, so many changes of one row are many rows of a larger batch: one plain call.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from engram.errors import NonFiniteError, ShapeError

Step = Callable[[Tensor, Tensor], Tensor]
"""(state (B, N), input (B, D)) -> next state (B, N). Rows do not see each other."""


def push(
    step: Step, state: Tensor, input: Tensor, frame: Tensor, input_frame: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The next state (B, N), and where the step takes C small changes: (B, N, C).

    Column c of ``frame`` (B, N, C) is a change of the state, column c of ``input_frame`` (B, D, C) the change of the
    input that goes with it, 0 if not given. Out comes d step / d state . frame + d step / d input . input_frame.
    """
    state, input = state.detach(), input.detach()
    inner = input.new_zeros(*input.shape, frame.shape[-1]) if input_frame is None else input_frame
    try:
        following, moved = _forward(step, state, input, frame, inner)
    except (RuntimeError, NotImplementedError):  # some operation has no forward mode; an error of the step comes again
        following, moved = _reverse(step, state, input, frame, inner)
    if not bool(torch.isfinite(following).all()):
        raise NonFiniteError("the state is no longer finite: there is no path to follow")
    return following, moved


def _forward(step: Step, state: Tensor, input: Tensor, frame: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """C tangents a row, in one batch of B C rows."""
    count = frame.shape[-1]
    sides = ((state, frame), (input, inner))
    with warnings.catch_warnings(), torch.no_grad(), forward_ad.dual_level():
        # torch 2.13 itself, at the first use of forward mode
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        rows = [forward_ad.make_dual(x.repeat_interleave(count, 0), dx.mT.flatten(0, 1)) for x, dx in sides]
        following, moved = forward_ad.unpack_dual(step(*rows))
    _check(following, rows[0])
    if moved is None:  # the next state depends on neither
        moved = torch.zeros_like(following)
    return following[::count], moved.unflatten(0, (-1, count)).mT


def _reverse(step: Step, state: Tensor, input: Tensor, frame: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """The whole Jacobian, in one batch of B N rows: row n of each asks for the gradient of unit n."""
    size = state.shape[1]
    with torch.enable_grad():
        rows = tuple(side.repeat_interleave(size, 0).requires_grad_() for side in (state, input))
        following = step(*rows)
        _check(following, rows[0])
        asked = following.unflatten(0, (-1, size)).diagonal(dim1=1, dim2=2).sum()
        by_state, by_input = torch.autograd.grad(asked, rows, allow_unused=True, materialize_grads=True)
    moved = by_state.unflatten(0, (-1, size)) @ frame + by_input.unflatten(0, (-1, size)) @ inner
    return following[::size].detach(), moved


def _check(following: Tensor, state: Tensor) -> None:
    if following.shape != state.shape:
        raise ShapeError(f"a step must keep the shape of the state, {tuple(state.shape)}, got {tuple(following.shape)}")
