"""Long sequences in bounded memory: run in segments, keep only the states between them, recompute the rest.

A backward pass needs the states of all T steps. Cut into segments of k steps, only the T/k states at the cuts are
kept; each segment is run again when its gradient is due (torch.utils.checkpoint), so k + T/k states are alive at a
time, for one more forward pass of work.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from engram.nn._bare_cell import BareCell
from engram.state import State, first_rows, replace_rows


def run_in_segments(
    cell: BareCell, data: Tensor, state: State, sizes: Tensor | None, reverse: bool, every: int, keep: bool
) -> tuple[Tensor | None, State]:
    """:meth:`Cell.run` in segments of ``every`` steps. Without ``keep`` there are no outputs, only the last state."""
    outputs: list[Tensor] = []
    pieces = list(_cut(data, sizes, every))
    for piece, alive in reversed(pieces) if reverse else pieces:
        n = piece.shape[1] if alive is None else int(alive[0])
        entering = first_rows(state, n)
        if keep:
            output, new = checkpoint(cell.run, piece, entering, alive, reverse, use_reentrant=False)
            outputs.append(output)
        else:
            new = cell.last(piece, entering, alive, reverse)
        state = replace_rows(new, state, cell.fields())
    if not keep:
        return None, state
    return torch.cat(outputs[::-1] if reverse else outputs), state


def _cut(data: Tensor, sizes: Tensor | None, every: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    if sizes is None:
        count = -(-data.shape[0] // every)  # slices: torch.compile then asks for this count only, not for T
        yield from ((data[k * every : (k + 1) * every], None) for k in range(count))
        return
    alive = sizes.split(every)
    yield from zip(data.split([int(n.sum()) for n in alive]), alive, strict=True)
