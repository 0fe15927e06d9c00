"""The additive loop in torch operations that write in place: two a step, nothing allocated, any device and dtype.

Both functions work on the row layout of :mod:`engram.kernels._steps`. The C loop (:mod:`._compiled`) has the same
two signatures.
"""

import torch
from torch import Tensor

from engram.kernels._activations import activate_, modrelu_bias_grad, pull_back
from engram.kernels._steps import order, split, step_sizes


def forward_loop(
    states: Tensor,
    weight: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> Tensor:
    """Turn ``states``, which holds the drive, into h_t = act(drive_t + W h_{t-1}); returns the last state."""
    alive, now = step_sizes(states, sizes), split(states, sizes)
    weight_t, final = weight.t(), start.clone(memory_format=torch.contiguous_format)
    before, ready = start, len(start)
    for t in order(len(alive), reverse):
        n, h = alive[t], now[t]
        if n != ready:  # rows end (forward) or begin (reverse): `final` holds every row's newest state
            final[:ready] = before
            before = final[:n]
        activate_(activation, h.addmm_(before, weight_t), mod_bias)
        before, ready = h, n
    final[:ready] = before
    return final


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
) -> tuple[Tensor, Tensor, Tensor]:
    """Write dL/dz_t, z_t = drive_t + W h_{t-1}, to ``dz``; returns the gradients of start, bias and mod_bias.

    dL/dz_t = act'(z_t) (dL/dh_t + W^* dL/dz_{t+1}), the slope rebuilt from h_t.
    """
    alive, h, out = step_sizes(states, sizes), split(states, sizes), split(dz, sizes)
    given = split(grad_states, sizes) if grad_states is not None else None
    weight = weight.conj().resolve_conj()
    grad_start = dz.new_zeros(max(alive, default=0), dz.shape[-1])
    later, carried = dz[:0], 0  # dL/dz of the step after this one, and its number of rows
    begun = 0  # rows whose gradient has set out
    for t in order(len(alive), not reverse):
        n, target = alive[t], out[t]
        if carried > n:  # rows that were entered by `start` at the step after
            torch.mm(later[n:], weight, out=grad_start[n:carried])
            later, carried = later[:n], n
        if carried:
            part = target if carried == n else target[:carried]
            if given is None:
                torch.mm(later, weight, out=part)
            else:
                torch.addmm(given[t] if carried == n else given[t][:carried], later, weight, out=part)
        if n > begun:
            target[begun:] = 0 if given is None else given[t][begun:]
            if grad_final is not None:
                target[begun:] += grad_final[begun:n]
            begun = n
        pull_back(activation, target, h[t], mod_bias, out=target)
        later, carried = target, n
    torch.mm(later, weight, out=grad_start[:carried])
    rows = dz.reshape(-1, dz.shape[-1])
    grad_mod = modrelu_bias_grad(dz, states) if activation == "modrelu" else dz.new_zeros(0).real
    return grad_start, rows.sum(0), grad_mod
