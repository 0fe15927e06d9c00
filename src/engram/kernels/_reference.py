"""The plain time loops. Slow, obvious, differentiable any number of times: the truth every fast path must equal."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.kernels._activations import activate
from engram.kernels._steps import order, split, step_sizes
from engram.maps import without_autocast
from engram.state import Fields, State, first_rows, parts, replace_rows


def scan(
    step: Callable[[Any, State], State],
    drive: Any,
    state: State,
    sizes: Tensor | None = None,
    reverse: bool = False,
    output: Callable[[State], Tensor] = lambda state: state,
    fields: Fields = None,
) -> tuple[Tensor, State]:
    """``state = step(drive[t], state)`` for every t; returns the outputs of all steps and the last state.

    Shape:
        drive ``(T, B, G)``, or ``(rows, G)`` with ``sizes`` for packed sequences, or a tuple of such; state ``(B, H)``
        or a NamedTuple; outputs ``(T, B, H)`` or ``(rows, H)``.

    A row that has ended (or, in reverse, not begun) keeps its state. ``fields`` are needed if one of them grows.
    """
    first = drive if isinstance(drive, Tensor) else drive[0]
    alive = step_sizes(first, sizes)
    pieces: Any = split(drive, sizes) if first is drive else list(zip(*(split(d, sizes) for d in drive), strict=True))
    growing = fields if any(field.grows for field in parts(fields)) else None
    outputs: list[Tensor] = [first] * len(alive)
    for t in order(len(alive), reverse):
        new = step(pieces[t], first_rows(state, alive[t]))
        outputs[t] = output(new)
        state = replace_rows(new, state, growing)
    return torch.stack(outputs) if sizes is None else torch.cat(outputs), state


def additive_reference(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """h_t = act(W_hh h_{t-1} + W_ih x_t + b), step by step. Arguments as in :func:`engram.kernels.additive`."""

    def step(drive: Tensor, state: Tensor) -> Tensor:
        return activate(activation, drive + state @ weight_hh.mT, mod_bias)

    with without_autocast(weight_hh):
        return scan(step, F.linear(input, weight_ih, bias), start, sizes, reverse)
