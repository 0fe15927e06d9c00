"""The time loops in torch operations that write in place: any device and dtype, little or nothing allocated.

:func:`forward_steps` and :func:`backward_steps` know which rows are alive at which step; what a recurrence does in a
step is handed to them as a function. The two loops below them,

    h_t = act(drive_t + gate_t (W h_{t-1})),

are the additive recurrence without a gate and the multiplicative one with it; the C loop (:mod:`._compiled`) has the
same two signatures. Rows of ``start`` from number ``given`` on hold W h_0 in place of h_0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engram.kernels._activations import activate_, modrelu_bias_grad, pull_back
from engram.kernels._products import Multiplier, column_sums
from engram.kernels._steps import order, split, step_sizes

Merge = Callable[[int, Tensor, Tensor], object]
"""``merge(t, h, before)`` adds to h, which holds the drive of step t, what comes from the state before."""
Pull = Callable[[int, int, Tensor, Tensor | None, Tensor], object]
"""``pull(t, first, dz, add, out)`` writes dL/dh_{t-1} of the rows from ``first`` on, plus ``add`` if it is given."""


def forward_steps(
    states: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    merge: Merge,
) -> Tensor:
    """Turn ``states``, which holds the drive, into the states; returns the last one of every row."""
    alive, now = step_sizes(states, sizes), split(states, sizes)
    final = start.clone(memory_format=torch.contiguous_format)
    before, ready = start, len(start)
    for t in order(len(alive), reverse):
        n, h = alive[t], now[t]
        if n != ready:  # rows end (forward) or begin (reverse): `final` holds every row's newest state
            final[:ready] = before
            before = final[:n]
        merge(t, h, before)
        activate_(activation, h, mod_bias)
        before, ready = h, n
    final[:ready] = before
    return final


def backward_steps(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    states: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    dz: Tensor,
    pull: Pull,
    enter: Pull | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Write dL/dz of all steps to ``dz``; returns the gradients of start, bias and mod_bias.

    dL/dz_t = act'(z_t) (dL/dh_t + what ``pull`` makes of dL/dz_{t+1}), the slope rebuilt from h_t. ``enter`` is the
    pull of a row's first step, where that is another.
    """
    alive, h, out = step_sizes(states, sizes), split(states, sizes), split(dz, sizes)
    above = split(grad_states, sizes) if grad_states is not None else None
    enter = enter or pull
    grad_start = dz.new_zeros(max(alive, default=0), dz.shape[-1])
    after, later, carried = 0, dz[:0], 0  # the step after this one, its dL/dz, and its number of rows
    begun = 0  # rows whose gradient has set out
    for t in order(len(alive), not reverse):
        n, target = alive[t], out[t]
        if carried > n:  # rows that were entered by `start` at the step after
            enter(after, n, later[n:], None, grad_start[n:carried])
            later, carried = later[:n], n
        if carried:
            whole = carried == n
            add = None if above is None else above[t] if whole else above[t][:carried]
            pull(after, 0, later, add, target if whole else target[:carried])
        if n > begun:
            target[begun:] = 0 if above is None else above[t][begun:]
            if grad_final is not None:
                target[begun:] += grad_final[begun:n]
            begun = n
        pull_back(activation, target, h[t], mod_bias, out=target)
        after, later, carried = t, target, n
    enter(after, 0, later, None, grad_start[:carried])
    grad_mod = modrelu_bias_grad(dz, states) if activation == "modrelu" else dz.new_zeros(0).real
    return grad_start, column_sums(dz), grad_mod


def forward_loop(
    states: Tensor,
    weight: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    gate: Tensor | None = None,
    given: int | None = None,
) -> Tensor:
    """Turn ``states``, which holds the drive, into the states, and ``gate`` into W h_{t-1}; returns the last state."""
    times = Multiplier(weight.t())
    if gate is None:
        return forward_steps(
            states, start, mod_bias, sizes, activation, reverse, lambda _, h, before: times(before, h, add=True)
        )
    gates = split(gate, sizes)
    begun = len(start) if given is None else given

    def merge(t: int, h: Tensor, before: Tensor) -> None:
        nonlocal begun
        product = times(before)
        if len(h) > begun:
            product[begun:] = start[begun : len(h)]
            begun = len(h)
        h.addcmul_(product, gates[t])
        gates[t].copy_(product)

    return forward_steps(states, start, mod_bias, sizes, activation, reverse, merge)


def backward_loop(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    states: Tensor,
    weight: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    dz: Tensor,
    gate: Tensor | None = None,
    given: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Write dL/dz_t to ``dz``; returns the gradients of start, bias and mod_bias.

    What goes to the state before is W^* (gate_t^* dL/dz_t).
    """
    times = Multiplier(weight.conj_physical())
    gates = None if gate is None else split(gate, sizes)

    def pull(t: int, first: int, rows: Tensor, add: Tensor | None, out: Tensor) -> None:
        if gates is not None:
            rows = rows * gates[t][first : first + len(rows)].conj_physical()
        if add is not None:
            out.copy_(add)
        times(rows, out, add=add is not None)

    def enter(t: int, first: int, rows: Tensor, add: Tensor | None, out: Tensor) -> None:
        pull(t, first, rows, add, out)
        if given is not None and gates is not None:
            skip = max(given - first, 0)
            torch.mul(rows[skip:], gates[t][first + skip : first + len(rows)].conj_physical(), out=out[skip:])

    return backward_steps(grad_states, grad_final, states, mod_bias, sizes, activation, reverse, dz, pull, enter)
