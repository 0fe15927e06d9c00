"""Linear recurrences in blocks of time: the blocks are the batch of one loop, so that few sequences fill the machine.

    h_t = W_hh h_{t-1} + W_ih x_t + b

Cut into C blocks of m steps, (1) every block runs from zero, all at once; (2) what enters each block follows from what
leaves the one before, h_end = W_hh^m h_begin + (end from zero), a loop of C steps; (3) every block runs again from what
enters it. The two passes cost twice the arithmetic of the plain loop, in m + C steps of C*B and B rows in place of T
steps of B rows: matrix times matrix where the plain loop, at a batch of one, has matrix times vector.
"""

from typing import Any

import torch
from torch import Tensor

from engram.kernels import _eager
from engram.kernels._additive import additive
from engram.kernels._choice import needs_reference
from engram.kernels._last import additive_last
from engram.kernels._loops import loops

BLOCK = 32
"""Steps a block. Long blocks raise W_hh to a high power; short ones leave a long loop over blocks."""


def linear_scan(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`engram.kernels.additive` with the identity as activation; in blocks of time where that is faster."""
    if not in_blocks(input, weight_hh, sizes):
        return additive(input, weight_ih, bias, weight_hh, start, None, sizes, "identity", reverse)
    weights = (weight_ih, bias, weight_hh)
    input = input.flip(0) if reverse else input
    head, blocks = _cut(input)
    first, begin = additive(head, *weights, start, activation="identity")
    entering, final = _entering(blocks, weights, begin)
    states, _ = additive(blocks.flatten(1, 2), *weights, entering.flatten(0, 1), activation="identity")
    rest = states.unflatten(1, entering.shape[:2]).transpose(0, 1).flatten(0, 1)
    states = torch.cat([first, rest])
    return (states.flip(0) if reverse else states), final


def linear_scan_last(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None = None,
    reverse: bool = False,
) -> Tensor:
    """The last state of :func:`linear_scan` alone: the second pass falls away."""
    if not in_blocks(input, weight_hh, sizes):
        return additive_last(input, weight_ih, bias, weight_hh, start, None, sizes, "identity", reverse)
    weights = (weight_ih, bias, weight_hh)
    head, blocks = _cut(input.flip(0) if reverse else input)
    begin = additive_last(head, *weights, start, activation="identity")
    return _entering(blocks, weights, begin)[1]


def in_blocks(input: Tensor, weight_hh: Tensor, sizes: Tensor | None) -> bool:
    """Whether blocks are faster: of long sequences, few rows and few units, where no compiled loop serves them.

    Measured forward and backward on one thread, time of blocks over time of the loop of torch operations: 0.2 to 0.6
    at T = 4096 and B*H <= 256, 0.6 to 0.7 at B*H = 512, 1.6 and more at B*H = 1024; at T = 256 never below 1. Over the
    time of the compiled loop it was 1.3 to 5 at every size from B*H = 16 to 4096: that one loses nothing between two
    steps, so the arithmetic decides, and blocks have twice as much.
    """
    if sizes is not None or torch.compiler.is_compiling() or needs_reference(input) or loops(input) is not _eager:
        return False
    steps, batch = input.shape[:2]
    return steps >= 1024 and batch * len(weight_hh) <= 512


def _cut(input: Tensor) -> tuple[Tensor, Tensor]:
    """The first steps, at least one, and the others as ``(m, C, B, D)``."""
    head = (len(input) - 1) % BLOCK + 1
    return input[:head], input[head:].unflatten(0, (-1, BLOCK)).transpose(0, 1)


def _entering(blocks: Tensor, weights: Any, begin: Tensor) -> tuple[Tensor, Tensor]:
    """The state that enters each block ``(C, B, H)``, and the one that leaves the last."""
    (weight_ih, bias, weight_hh), shape = weights, (blocks.shape[1], *begin.shape)
    zeros = begin.new_zeros(shape).flatten(0, 1)
    ends = additive_last(blocks.flatten(1, 2), weight_ih, bias, weight_hh, zeros, activation="identity")
    unit = torch.eye(len(weight_hh), dtype=begin.dtype, device=begin.device)
    power = torch.linalg.matrix_power(weight_hh, BLOCK)
    leaving, final = additive(ends.view(shape), unit, None, power, begin, activation="identity")
    return torch.cat([begin[None], leaving[:-1]]), final
