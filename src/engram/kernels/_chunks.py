"""The backward pass of the additive recurrence in chunks of steps.

dL/dz of all T steps would be as large as the states themselves. It is only needed to form the weight gradients, so
it is made for a chunk of steps at a time, in a workspace that stays in the cache; each chunk gives one product for
each weight. What a chunk hands to the one before it is the gradient of the state it started from.
"""

from collections.abc import Iterator
from itertools import accumulate
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from engram.kernels._products import matmul
from engram.kernels._steps import previous_rows, step_sizes
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
    sources = previous_rows(sizes, reverse, states.device)

    # Contiguous whatever the strides of the inputs: torch.compile was promised so (see _additive.py).
    grad_input = states.new_empty(input_rows.shape if needs_input else 0)
    grad_ih = states.new_zeros(weight_ih.shape if needs_weights else 0)
    grad_hh = states.new_zeros(weight_hh.shape if needs_weights else 0)
    grad_bias = states.new_zeros(hidden)
    grad_mod = mod_bias.new_zeros(mod_bias.shape) if mod_bias is not None else states.new_zeros(0).real
    carried = states.new_zeros(start.shape)
    if grad_final is not None:
        carried.copy_(grad_final)

    for chunk in cut(states, sizes, reverse, backwards=True):
        begin, end, alive = chunk.begin, chunk.end, chunk.alive
        shape = (end - begin, hidden) if sizes is not None else (-1, start.shape[0], hidden)
        with borrow((end - begin, hidden), like=states) as dz:
            chunk_start, chunk_bias, chunk_mod = loops.backward_loop(
                None if given is None else given[begin:end].view(shape),
                carried[:alive],
                rows[begin:end].view(shape),
                weight_hh,
                mod_bias,
                chunk.sizes,
                activation,
                reverse,
                dz.view(shape),
            )
            carried[:alive] = chunk_start
            grad_bias += chunk_bias
            if mod_bias is not None:
                grad_mod += chunk_mod
            if needs_input:
                matmul(dz, weight_ih.conj_physical(), grad_input[begin:end])
            if needs_weights:
                matmul(dz.t(), input_rows[begin:end].conj_physical(), grad_ih, add=True)
                for part, previous, _ in previous_states(rows, start, chunk, sources, reverse):
                    matmul(dz[part].t(), previous.conj_physical(), grad_hh, add=True)
    return grad_input.view(input.shape) if needs_input else grad_input, grad_ih, grad_bias, grad_hh, carried, grad_mod


class Chunk(NamedTuple):
    """Some steps of a sequence, as rows ``begin .. end``."""

    begin: int
    end: int
    alive: int
    """Rows alive at its first step."""
    entering: int
    """Rows from this number on take their first step here: before it is ``start``."""
    sizes: Tensor | None
    """Rows alive at each of its steps, if packed."""


def cut(states: Tensor, sizes: Tensor | None, reverse: bool, backwards: bool, width: int | None = None) -> list[Chunk]:
    """Chunks of whole steps in the order of the recurrence, or against it; a row needs memory for ``width`` numbers."""
    limit = max(1, CHUNK_BYTES // ((width or states.shape[-1]) * states.element_size()))
    alive = step_sizes(states, sizes)
    first = [*accumulate(alive, initial=0)]
    every = max(1, limit // alive[0])
    chunks = []
    for a in range(0, len(alive), every):
        b = min(a + every, len(alive))
        if reverse:
            entering = alive[b] if b < len(alive) else 0
        else:
            entering = alive[a] if a else 0
        chunks.append(Chunk(first[a], first[b], alive[a], entering, None if sizes is None else sizes[a:b]))
    return chunks[::-1] if backwards is not reverse else chunks


def previous_states(
    rows: Tensor, start: Tensor, chunk: Chunk, sources: Tensor | None, reverse: bool
) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Parts of a chunk that cover it: their rows, the states they came from, and a mask ``(rows, 1)`` of those that
    came from ``start``, None if none did."""
    batch, begin, end = start.shape[0], chunk.begin, chunk.end
    count = end - begin
    if sources is not None:  # packed: a gather out of [start; states]
        picked = sources[begin:end]
        outside = (picked < batch)[:, None]
        inside = rows[(picked - batch).clamp_(min=0)]
        yield slice(0, count), torch.where(outside, start[picked.clamp(max=batch - 1)], inside), outside
        return
    fresh = torch.ones(1, 1, dtype=torch.bool, device=start.device)
    if reverse:
        last = end == len(rows)
        if not last or count > batch:
            yield slice(0, count - batch if last else count), rows[begin + batch : end + batch], None
        if last:
            yield slice(count - batch, count), start, fresh
    else:
        if begin or count > batch:
            yield slice(0 if begin else batch, count), rows[max(begin - batch, 0) : end - batch], None
        if begin == 0:
            yield slice(0, batch), start, fresh
