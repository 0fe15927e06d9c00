"""h_t = a_t h_{t-1} + b_t, one number per unit, in blocks of time that run side by side.

T steps are cut into C blocks of m, both about sqrt(T). (1) Every block runs from zero, all at once, and keeps the
product of its a beside its states: m steps of C*B rows. (2) What enters each block follows from what leaves the one
before: C steps of B rows. (3) h = (state from zero) + (product) * (what enters). So m + C steps in place of T, and
about three times the arithmetic. No logarithm and no division: right for any sign, and stable while |a| <= 1.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import ShapeError


def decay_scan(
    keep: Tensor, added: Tensor, start: Tensor, sizes: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """All states of ``h_t = keep_t h_{t-1} + added_t``, and the last one.

    Shape:
        keep, added, states ``(T, B, H)``, or ``(rows, H)`` with ``sizes`` for packed sequences; start ``(B, H)``.
    """
    if sizes is None:
        return _dense(keep, added, start, reverse)
    places = _places(sizes, len(start)).to(keep.device)
    shape = (len(sizes), *start.shape)  # a row that has ended, or not begun, keeps its state
    states, final = _dense(_padded(keep, places, shape, 1.0), _padded(added, places, shape, 0.0), start, reverse)
    return states.flatten(0, 1).index_select(0, places), final


def _dense(keep: Tensor, added: Tensor, start: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    steps = len(keep)
    block = math.isqrt(max(steps - 1, 0)) + 1
    if reverse:
        keep, added = keep.flip(0), added.flip(0)
    missing = -steps % block
    keep = F.pad(keep, (0, 0, 0, 0, 0, missing), value=1.0).unflatten(0, (-1, block))  # (C, m, B, H)
    added = F.pad(added, (0, 0, 0, 0, 0, missing)).unflatten(0, (-1, block))
    from_zero, products = [added[:, 0]], [keep[:, 0]]
    for k in range(1, block):
        from_zero.append(keep[:, k] * from_zero[-1] + added[:, k])
        products.append(keep[:, k] * products[-1])
    entering = [start]
    for product, end in zip(products[-1].unbind(0), from_zero[-1].unbind(0), strict=True):
        entering.append(product * entering[-1] + end)
    blocks = torch.stack(from_zero, 1) + torch.stack(products, 1) * torch.stack(entering[:-1])[:, None]
    states = blocks.flatten(0, 1)[:steps]
    return states.flip(0) if reverse else states, entering[-1]


def _places(sizes: Tensor, batch: int) -> Tensor:
    """Where each row of a packed sequence lies in a dense batch whose steps are laid end to end."""
    alive = sizes.tolist()
    if alive[0] != batch:
        raise ShapeError(f"the start must have a row for each of the {alive[0]} sequences, got {batch}")
    return torch.cat([t * batch + torch.arange(n) for t, n in enumerate(alive)])


def _padded(rows: Tensor, places: Tensor, shape: tuple[int, ...], value: float) -> Tensor:
    """Packed rows as a dense batch, filled up with a value."""
    steps, batch, size = shape
    return rows.new_full((steps * batch, size), value).index_copy(0, places, rows).view(shape)
