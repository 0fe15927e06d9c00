"""Buffers of a state are not kept whole at every step; only what their slots held before a step changed them is kept.

A ring of 20 x 128 numbers for 64 rows and 400 steps would be 262 MB; one slot per step is 13.
"""

import torch
from torch import Tensor

from engram.loops._layout import Arrays, Span
from engram.loops._memory import empty
from engram.loops._program import Plan


def new_array(plan: Plan, value: int, rows: int, reference: Tensor) -> Tensor:
    kind = plan.graph.values[value]
    return empty((rows, *kind.shape), reference, kind.dtype)


class Changes:
    """What the slots of buffers held before a step changed them.

    ``slots`` says which changed, ``changed`` what was there, in the order of the rows.
    """

    def __init__(self, plan: Plan, tensors: dict[str, Tensor], rows: int, reference: Tensor) -> None:
        self.plan, self.old_slots = plan, {k: {} for k in plan.forward.changes}  # type: ignore[var-annotated]
        for k, (before, _) in plan.forward.changes.items():
            count = plan.graph.values[before].shape[0]
            tensors[f"slots{k}"] = torch.zeros(rows, count, dtype=torch.bool, device=reference.device)

    def make_room(self, arrays: Arrays, chunk: Span) -> None:
        """Memory for all slots of the rows of a chunk."""
        for k, (before, _) in self.plan.forward.changes.items():
            rows = chunk.rows.stop - chunk.rows.start
            arrays.tensors[f"old{k}"] = new_array(self.plan, before, rows, arrays.start[0])
            arrays.base[f"old{k}"] = chunk.rows.start

    def collect(self, arrays: Arrays, chunk: Span) -> None:
        """Keep those that changed."""
        for k, old in self.old_slots.items():
            old[chunk.rows.start] = arrays.tensors[f"old{k}"][arrays.rows(f"slots{k}", chunk)]

    def kept(self) -> dict[str, Tensor]:
        return {f"changed{k}": torch.cat([old[at] for at in sorted(old)]) for k, old in self.old_slots.items()}


def start_rebuilding(plan: Plan, arrays: Arrays) -> None:
    """Before the backward pass: the buffers as they were at the end, and where the changes of each row start."""
    for k in plan.gradient_loop.rebuilt:
        arrays.tensors[f"rebuilt{k}"] = arrays.tensors[f"final{k}"].clone()
        counts = arrays.tensors[f"slots{k}"].sum(1).cumsum(0).cpu()
        arrays.tensors[f"counts{k}"] = torch.cat([counts.new_zeros(1), counts])


def restore_slots(plan: Plan, arrays: Arrays, chunk: Span) -> None:
    """The slots of a chunk, each at its place again: for the backward loop."""
    for k, value in plan.gradient_loop.rebuilt.items():
        counts, start, stop = arrays.tensors[f"counts{k}"], chunk.rows.start, chunk.rows.stop
        here = arrays.rows(f"slots{k}", chunk)
        old = new_array(plan, value, len(here), arrays.start[0])
        old[here] = arrays.tensors[f"changed{k}"][int(counts[start]) : int(counts[stop])]
        arrays.tensors[f"old{k}"], arrays.base[f"old{k}"] = old, chunk.rows.start
