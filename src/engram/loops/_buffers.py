"""Buffers of a state are not kept whole at every step; only what their slots held before a step changed them is kept.

A ring of 20 x 128 numbers for 64 rows and 400 steps would be 262 MB; one slot per step is 13. The forward loop notes
which slots a step changed (``slots``: their numbers, -1 for none) and what was in them (``old``); of a chunk of steps
those that changed are kept, and the backward loop puts them back.
"""

import torch
from torch import Tensor

from engram.loops._layout import Arrays, Span
from engram.loops._memory import empty
from engram.loops._program import Plan
from engram.loops._slots import records


def new_array(plan: Plan, value: int, rows: int, reference: Tensor) -> Tensor:
    kind = plan.graph.values[value]
    return empty((rows, *kind.shape), reference, kind.dtype)


def _room(plan: Plan, field: int, rows: int, reference: Tensor) -> Tensor:
    """Memory for all slots that this many rows may change."""
    kind = plan.graph.values[plan.forward.changes[field][0]]
    return empty((rows, records(plan, field), *kind.shape[1:]), reference, kind.dtype)


class Changes:
    """What the slots of buffers held before a step changed them, in the order of the rows, one piece per chunk."""

    def __init__(self, plan: Plan, tensors: dict[str, Tensor], rows: int, reference: Tensor) -> None:
        self.plan = plan
        self.pieces: dict[int, dict[int, Tensor]] = {k: {} for k in plan.forward.changes}
        for k in plan.forward.changes:
            shape = (rows, records(plan, k))
            tensors[f"slots{k}"] = torch.full(shape, -1, dtype=torch.int32, device=reference.device)

    def make_room(self, arrays: Arrays, chunk: Span) -> None:
        """Memory for the slots of the rows of a chunk."""
        for k in self.pieces:
            rows = chunk.rows.stop - chunk.rows.start
            arrays.tensors[f"old{k}"] = _room(self.plan, k, rows, arrays.start[0])
            arrays.base[f"old{k}"] = chunk.rows.start

    def collect(self, arrays: Arrays, chunk: Span) -> None:
        """Keep those that changed."""
        for k, pieces in self.pieces.items():
            old, changed = arrays.tensors[f"old{k}"], arrays.rows(f"slots{k}", chunk) >= 0
            flat, where = old.flatten(0, 1), changed.flatten().nonzero()[:, 0]
            kept = empty((len(where), *flat.shape[1:]), flat)
            pieces[chunk.rows.start] = torch.index_select(flat, 0, where, out=kept)

    def kept(self) -> dict[str, Tensor]:
        """By names that say their order."""
        found: dict[str, Tensor] = {}
        for k, pieces in self.pieces.items():
            found |= {f"changed{k}_{n}": pieces[at] for n, at in enumerate(sorted(pieces))}
        return found


def start_rebuilding(plan: Plan, arrays: Arrays) -> None:
    """Before the backward pass: the buffers as they were at the end, and where the changes of each row start."""
    for k in plan.gradient_loop.rebuilt:
        arrays.tensors[f"rebuilt{k}"] = arrays.tensors[f"final{k}"].clone(memory_format=torch.contiguous_format)
        counts = (arrays.tensors[f"slots{k}"] >= 0).sum(1).cumsum(0).cpu()
        arrays.tensors[f"counts{k}"] = torch.cat([counts.new_zeros(1), counts])


def restore_slots(plan: Plan, arrays: Arrays, chunk: Span) -> None:
    """The slots of a chunk, each at its place again: for the backward loop."""
    for k in plan.gradient_loop.rebuilt:
        counts, start, stop = arrays.tensors[f"counts{k}"], chunk.rows.start, chunk.rows.stop
        where = (arrays.rows(f"slots{k}", chunk) >= 0).flatten().nonzero()[:, 0]
        old = _room(plan, k, stop - start, arrays.start[0])
        flat, done = old.flatten(0, 1), 0
        for piece in _pieces(arrays, k, int(counts[start]), int(counts[stop])):
            flat.index_copy_(0, where[done : done + len(piece)], piece)
            done += len(piece)
        arrays.tensors[f"old{k}"], arrays.base[f"old{k}"] = old, start


def _pieces(arrays: Arrays, field: int, first: int, last: int) -> list[Tensor]:
    """The changes with these numbers, as they lie."""
    found, at, n = [], 0, 0
    while (piece := arrays.tensors.get(f"changed{field}_{n}")) is not None:
        found.append(piece[max(0, first - at) : max(0, last - at)])
        at, n = at + len(piece), n + 1
    return [piece for piece in found if len(piece)]
