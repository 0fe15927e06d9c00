"""Linear recurrences in blocks of time, which run side by side as the batch of one loop.

    h_t = W_hh h_{t-1} + W_ih x_t + b

Cut into C blocks of m steps, (1) every block runs from zero, all at once; (2) what enters each block follows from what
leaves the one before, h_end = W_hh^m h_start + (end from zero), a loop of C steps; (3) every block runs again from what
enters it. The two passes cost twice the arithmetic of the plain loop, in m steps of C*B rows and C steps of B rows in
place of T steps of B rows: with a batch of one, matrix times matrix in place of matrix times vector.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engram.loops._build import runtime
from engram.loops._choice import chosen, needs_plain

BLOCK = 32
"""Steps of a block. Long blocks raise W_hh to a high power; short ones leave a long loop over blocks."""

Run = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""The loop: input ``(T, B, D)`` and start ``(B, H)`` to all states and the last one."""
Last = Callable[[Tensor, Tensor], Tensor]
"""The last state alone."""


def linear_scan(
    run: Run, last: Last, input: Tensor, weight_hh: Tensor, start: Tensor, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """All states of a linear recurrence, and the last one, in blocks of time."""
    head, blocks = _cut(input.flip(0) if reverse else input)
    first, after_head = run(head, start)
    entering, final = _entering(last, blocks, weight_hh, after_head)
    states, _ = run(blocks.flatten(1, 2), entering.flatten(0, 1))
    rest = states.unflatten(1, entering.shape[:2]).transpose(0, 1).flatten(0, 1)
    states = torch.cat([first, rest])
    return (states.flip(0) if reverse else states), final


def linear_scan_last(last: Last, input: Tensor, weight_hh: Tensor, start: Tensor, reverse: bool = False) -> Tensor:
    """The last state of :func:`linear_scan` alone: without the second pass."""
    head, blocks = _cut(input.flip(0) if reverse else input)
    return _entering(last, blocks, weight_hh, last(head, start))[1]


def in_blocks(input: Tensor, weight_hh: Tensor, sizes: Tensor | None) -> bool:
    """Whether blocks are faster: for long sequences, few rows and few units, if there is no compiled loop.

    Measured forward and backward on one thread, time of blocks over time of the loop of torch operations: 0.2 to 0.6
    at T = 4096 and B*H <= 256, 0.6 to 0.7 at B*H = 512, 1.6 and more at B*H = 1024; at T = 256 never below 1. Over the
    time of the compiled loop it was 1.3 to 5 at every size from B*H = 16 to 4096: that one loses no
    time between two steps, so the arithmetic decides, and blocks have twice as much.
    """
    if sizes is not None or torch.compiler.is_compiling() or needs_plain(input):
        return False
    if input.device.type == "cpu" and chosen() != "torch" and runtime(weight_hh.dtype) is not None:
        return False
    steps, batch = input.shape[:2]
    return steps >= 1024 and batch * len(weight_hh) <= 512


def _cut(input: Tensor) -> tuple[Tensor, Tensor]:
    """The first steps, at least one, and the others as ``(m, C, B, D)``."""
    head = (len(input) - 1) % BLOCK + 1
    return input[:head], input[head:].unflatten(0, (-1, BLOCK)).transpose(0, 1)


def _entering(last: Last, blocks: Tensor, weight_hh: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The state that enters each block ``(C, B, H)``, and the one that leaves the last."""
    shape = (blocks.shape[1], *start.shape)
    ends = last(blocks.flatten(1, 2), start.new_zeros(shape).flatten(0, 1)).view(shape)
    power = torch.linalg.matrix_power(weight_hh, BLOCK).mT
    entering = [start]
    for end in ends:
        entering.append(entering[-1] @ power + end)
    return torch.stack(entering[:-1]), entering[-1]
