"""The plain time loops. Slow, obvious, differentiable any number of times: the truth every fast path must equal."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.kernels._activations import activate
from engram.kernels._steps import order, split, step_sizes
from engram.maps import without_autocast

State = Any
"""One tensor ``(B, H)``, or a NamedTuple of tensors whose first axis is the batch."""


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """Apply ``function`` to the tensor of each state, or field by field if the states are (Named)Tuples."""
    if isinstance(states[0], Tensor):
        return function(*states)
    fields = [function(*parts) for parts in zip(*states, strict=True)]
    return tuple(fields) if type(states[0]) is tuple else type(states[0])(*fields)  # torch.nn.LSTM has a plain tuple


def first_rows(state: State, n: int) -> State:
    """The first n rows of a state: those that are alive."""
    return map_state(lambda s: s[:n], state)


def replace_rows(new: State, old: State) -> State:
    """``new`` in place of the first rows of ``old``; the other rows keep their state."""
    return map_state(lambda s, o: s if len(s) == len(o) else torch.cat([s, o[len(s) :]]), new, old)


def scan(
    step: Callable[[Tensor, State], State],
    drive: Tensor,
    state: State,
    sizes: Tensor | None = None,
    reverse: bool = False,
    output: Callable[[State], Tensor] = lambda state: state,
) -> tuple[Tensor, State]:
    """``state = step(drive[t], state)`` for every t; returns the outputs of all steps and the last state.

    Shape:
        drive ``(T, B, G)``, or ``(rows, G)`` with ``sizes`` for packed sequences; state ``(B, H)`` or a NamedTuple;
        outputs ``(T, B, H)`` or ``(rows, H)``.

    A row that has ended (or, in reverse, not begun) keeps its state.
    """
    alive, pieces = step_sizes(drive, sizes), split(drive, sizes)
    outputs: list[Tensor] = [drive] * len(alive)
    for t in order(len(alive), reverse):
        new = step(pieces[t], first_rows(state, alive[t]))
        outputs[t] = output(new)
        state = replace_rows(new, state)
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
