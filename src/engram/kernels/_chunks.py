"""The backward pass of the additive recurrence in chunks of steps.

dL/dz of all T steps would be as large as the states themselves. It is only needed to form the weight gradients, so
it is made for a chunk of steps at a time, in a workspace that stays in the cache; each chunk gives one product for
each weight. What a chunk hands to the one before it is the gradient of the state it started from.
"""

from collections.abc import Iterator
from types import ModuleType

import torch
from torch import Tensor

from engram.kernels._steps import offsets, previous_rows
from engram.kernels._workspace import borrow

CHUNK_BYTES = 4 * 2**20  # of dL/dz: enough rows for an efficient product, few enough for the cache


def backward_in_chunks(
    loops: ModuleType,
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    input: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    states: Tensor,
    activation: str,
    reverse: bool,
    needs_input: bool,
    needs_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight_ih, bias, weight_hh, start and mod_bias; an empty tensor where none is needed."""
    hidden = states.shape[-1]
    rows = states.view(-1, hidden)  # every array below is cut by rows
    input_rows = input.reshape(-1, input.shape[-1])
    given = None if grad_states is None else grad_states.reshape(-1, hidden)
    sources = None if sizes is None else previous_rows(sizes, reverse).to(states.device)

    # Contiguous whatever the strides of the inputs: torch.compile was promised so (see _additive.py).
    grad_input = states.new_empty(input_rows.shape if needs_input else 0)
    grad_ih = states.new_zeros(weight_ih.shape if needs_weights else 0)
    grad_hh = states.new_zeros(weight_hh.shape if needs_weights else 0)
    grad_bias = states.new_zeros(hidden)
    grad_mod = mod_bias.new_zeros(mod_bias.shape) if mod_bias is not None else states.new_zeros(0).real
    carried = states.new_zeros(start.shape)
    if grad_final is not None:
        carried.copy_(grad_final)

    for begin, end, alive, size in _cut(states, sizes, backwards=not reverse):
        shape = (end - begin, hidden) if sizes is not None else (-1, start.shape[0], hidden)
        with borrow((end - begin, hidden), like=states) as dz:
            chunk_start, chunk_bias, chunk_mod = loops.backward_loop(
                None if given is None else given[begin:end].view(shape),
                carried[:alive],
                rows[begin:end].view(shape),
                weight_hh,
                mod_bias,
                size,
                activation,
                reverse,
                dz.view(shape),
            )
            carried[:alive] = chunk_start
            grad_bias += chunk_bias
            if mod_bias is not None:
                grad_mod += chunk_mod
            if needs_input:
                torch.mm(dz, weight_ih.conj(), out=grad_input[begin:end])
            if needs_weights:
                grad_ih.addmm_(dz.t(), input_rows[begin:end].conj())
                for dz_part, previous in _previous(dz, rows, start, begin, end, sources, reverse):
                    grad_hh.addmm_(dz_part.t(), previous.conj())
    return grad_input.view(input.shape) if needs_input else grad_input, grad_ih, grad_bias, grad_hh, carried, grad_mod


def _cut(states: Tensor, sizes: Tensor | None, backwards: bool) -> Iterator[tuple[int, int, int, Tensor | None]]:
    """Chunks of whole steps as (first row, last row + 1, rows alive at its first step, its sizes)."""
    limit = max(1, CHUNK_BYTES // (states.shape[-1] * states.element_size()))
    if sizes is None:
        steps, batch = states.shape[:2]
        every = max(1, limit // batch)
        cuts: list[tuple[int, int, int, Tensor | None]] = [
            (a * batch, min(a + every, steps) * batch, batch, None) for a in range(0, steps, every)
        ]
    else:
        first = [*offsets(sizes), int(sizes.sum())]
        every = max(1, limit // int(sizes[0]))
        cuts = [
            (first[a], first[min(a + every, len(sizes))], int(sizes[a]), sizes[a : a + every])
            for a in range(0, len(sizes), every)
        ]
    return iter(cuts[::-1] if backwards else cuts)


def _previous(
    dz: Tensor, rows: Tensor, start: Tensor, begin: int, end: int, sources: Tensor | None, reverse: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (rows of dL/dz, the states they came from) that together cover a chunk."""
    batch = start.shape[0]
    if sources is not None:  # packed: a gather out of [start; states]
        picked = sources[begin:end]
        outside = picked < batch
        yield dz, rows[(picked - batch).clamp_(min=0)].where(~outside[:, None], start[picked.clamp(max=batch - 1)])
    elif reverse:
        last = end == len(rows)
        yield dz[: -batch or None] if last else dz, rows[begin + batch : end + batch]
        if last:
            yield dz[-batch:], start
    else:
        yield dz[batch:] if begin == 0 else dz, rows[max(begin - batch, 0) : end - batch]
        if begin == 0:
            yield dz[:batch], start
