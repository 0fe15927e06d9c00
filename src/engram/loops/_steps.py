"""Which rows are alive at each step, for dense and for packed sequences.

A dense batch is ``(T, B, ...)``. A packed one is ``(rows, ...)``, step after step, with ``sizes[t]`` rows alive at
step t; sizes never grow, so row i of step t continues row i of step t-1 (torch.nn.utils.rnn.PackedSequence).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from engram.errors import ShapeError


def check_sizes(sizes: Tensor, rows: int) -> None:
    """Refuse sizes that are not those of a packed sequence of this many rows: a loop in C would read past the end."""
    alive = sizes.tolist()
    if sizes.dtype != torch.int64 or alive != sorted(alive, reverse=True) or alive[-1:] < [1] or sum(alive) != rows:
        raise ShapeError(
            f"sizes must be int64, at least 1, never growing, and add up to the {rows} rows of the packed input, "
            f"got {sizes}. Use those of torch.nn.utils.rnn.pack_padded_sequence"
        )


def step_sizes(rows: Tensor, sizes: Tensor | None) -> list[int]:
    """The number of rows alive at each step."""
    return [rows.shape[1]] * rows.shape[0] if sizes is None else [int(n) for n in sizes.tolist()]


def order(steps: int, reverse: bool) -> Iterator[int]:
    """The steps in the order in which the recurrence takes them."""
    return iter(range(steps - 1, -1, -1) if reverse else range(steps))


def split(rows: Tensor, sizes: Tensor | None) -> tuple[Tensor, ...]:
    """A view of each step."""
    return rows.unbind(0) if sizes is None else rows.split(sizes.tolist())
