"""A state space system over a whole sequence: its convolution and the state it leaves, also as one operator.

How many products a power of A takes depends on the bits of the length, so that torch.compile, if it looked inside,
would compile for every length again. The operator keeps only its inputs; its gradient runs the forward pass again.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from engram.loops import convolve
from engram.nn._rows import TimeLine
from engram.nn._s4 import LowRankSystem
from engram.nn._s4d import DiagonalSystem
from engram.nn._state_space import DiscreteSystem

SYSTEMS: dict[str, Any] = {kind.__name__: kind for kind in (DiagonalSystem, LowRankSystem)}
TENSORS = {name: [field.name for field in fields(kind) if field.name != "squares"] for name, kind in SYSTEMS.items()}


def convolved(system: DiscreteSystem, input: Tensor, before: Tensor | None, line: TimeLine) -> tuple[Tensor, Tensor]:
    """What the systems say at all steps of ``(T, B, H)``, and their last states ``(B, H, N/2)``."""
    said = convolve(line.oldest_first(input), *system.kernel(line.steps))
    memory = system.collect(line.newest_first(input))
    if before is not None:
        said = said + system.response(before, line.steps)
        memory = memory + system.later(before, line.lengths, line.steps)
    return line.back(said), memory


def convolved_operator(system: Any, input: Tensor, before: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
    """:func:`convolved` of a batch that is not packed, as one operation."""
    kind = type(system).__name__
    said, memory = _operator([getattr(system, name) for name in TENSORS[kind]], kind, input, before, reverse)
    return said, memory


def _compute(tensors: Any, kind: str, input: Tensor, before: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
    system = SYSTEMS[kind](**dict(zip(TENSORS[kind], tensors, strict=True)))
    said, memory = convolved(system, input, before, TimeLine(input, None, reverse))
    return said.contiguous(), memory.contiguous()


@torch.library.custom_op(
    "engram::convolved",
    mutates_args=(),
    schema="(Tensor[] tensors, str kind, Tensor input, Tensor? before, bool reverse) -> (Tensor, Tensor)",
)
def _operator(tensors: Any, kind: str, input: Tensor, before: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
    return _compute(tensors, kind, input, before, reverse)


@_operator.register_fake
def _(tensors: Any, kind: str, input: Tensor, before: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
    c = tensors[TENSORS[kind].index("c")]
    return input.new_empty(input.shape), c.new_empty((input.shape[1], *c.shape[1:]))


@torch.library.custom_op(
    "engram::convolved_backward",
    mutates_args=(),
    schema="(Tensor?[] grads, Tensor[] tensors, str kind, Tensor input, Tensor? before, bool reverse) -> Tensor[]",
)
def _gradient(grads: Any, tensors: Any, kind: str, input: Tensor, before: Tensor | None, reverse: bool) -> list[Tensor]:
    """Of input, of the state before (if there is one), and of each tensor of the system."""

    def forward(input: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        first, others = (None, rest) if before is None else (rest[0], rest[1:])
        return _compute(others, kind, input, first, reverse)

    made: Any = torch.func.vjp(forward, *_given(tensors, input, before))  # an operator has no autograd inside
    results, backward = made
    arriving = (torch.zeros_like(r) if grad is None else grad for r, grad in zip(results, grads, strict=True))
    return [grad.contiguous() for grad in backward(tuple(arriving))]


@_gradient.register_fake
def _(grads: Any, tensors: Any, kind: str, input: Tensor, before: Tensor | None, reverse: bool) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in _given(tensors, input, before)]


def _given(tensors: Any, input: Tensor, before: Tensor | None) -> list[Tensor]:
    return [input, *(() if before is None else (before,)), *tensors]


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, ctx.kind, input, before, ctx.reverse = inputs
    ctx.save_for_backward(input, before, *tensors)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, *grads: Tensor | None) -> Any:
    input, before, *tensors = ctx.saved_tensors
    found = _gradient(list(grads), tensors, ctx.kind, input, before, ctx.reverse)
    rest = found[1 if before is None else 2 :]
    return rest, None, found[0], None if before is None else found[1], None


_operator.register_autograd(_gradients, setup_context=_setup)
