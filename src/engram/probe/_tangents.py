"""How small changes of state and input pass through one step: products with its Jacobian.

Forward-mode differentiation where torch has it for all operations of the step, else reverse mode. Rows of a batch do
not influence each other, so many changes of one row are computed as many rows of a larger batch, in one call.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from engram.errors import NonFiniteError, ShapeError

Step = Callable[[Tensor, Tensor], Tensor]
"""(state (B, N), input (B, D)) -> next state (B, N); no row depends on another."""


def step_with_tangents(
    step: Step, state: Tensor, input: Tensor, frame: Tensor, input_frame: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The next state (B, N), and d step / d state . frame + d step / d input . input_frame, (B, N, C).

    Args:
        step: from state and input to the next state.
        state: (B, N).
        input: (B, D).
        frame: (B, N, C); column c is a change of the state.
        input_frame: (B, D, C); column c is the change of the input that goes with it. Default: none.
    """
    state, input = state.detach(), input.detach()
    inner = input.new_zeros(*input.shape, frame.shape[-1]) if input_frame is None else input_frame
    try:
        following, moved = _forward_mode(step, state, input, frame, inner)
    except (RuntimeError, NotImplementedError):  # an operation without forward mode; the step's own errors come again
        following, moved = _reverse_mode(step, state, input, frame, inner)
    if not bool(torch.isfinite(following).all()):
        raise NonFiniteError("the state is no longer finite: there is no path to follow")
    return following, moved


def _forward_mode(step: Step, state: Tensor, input: Tensor, frame: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """C tangents per row, in one batch of B C rows."""
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


def _reverse_mode(step: Step, state: Tensor, input: Tensor, frame: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """The whole Jacobian, in one batch of B N rows: row n of each N gives the gradient of unit n."""
    size = state.shape[1]
    with torch.enable_grad():
        rows = tuple(side.repeat_interleave(size, 0).requires_grad_() for side in (state, input))
        following = step(*rows)
        _check(following, rows[0])
        units = following.unflatten(0, (-1, size)).diagonal(dim1=1, dim2=2).sum()
        by_state, by_input = torch.autograd.grad(units, rows, allow_unused=True, materialize_grads=True)
    moved = by_state.unflatten(0, (-1, size)) @ frame + by_input.unflatten(0, (-1, size)) @ inner
    return following[::size].detach(), moved


def _check(following: Tensor, state: Tensor) -> None:
    if following.shape != state.shape:
        raise ShapeError(f"a step must keep the shape of the state, {tuple(state.shape)}, got {tuple(following.shape)}")
