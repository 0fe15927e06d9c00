"""A recurrence as a pair of torch custom operators: torch.compile takes it whole, and autograd knows its gradient.

A recurrence is three functions: the plain loop (the truth), a fast loop, and the gradient derived by hand::

    reference(*tensors, sizes, *options) -> states, final
    forward(*tensors, sizes, *options) -> states, final, *kept
    backward(grad_states, grad_final, *tensors, sizes, states, *kept, *options) -> one gradient a tensor

with one tensor named ``start`` ``(B, H)``. Of a tensor that is None the gradient is an empty tensor. What is kept for
the backward pass has the shape of the states. Sizes are checked before the fast loop.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from engram.kernels._choice import may_skip_dispatch, needs_reference
from engram.kernels._steps import check_sizes
from engram.maps import without_autocast

Loop = Callable[..., tuple[Tensor, Tensor]]


def operator(
    name: str,
    tensors: str,
    options: str,
    reference: Loop,
    forward: Callable[..., tuple[Tensor, ...]],
    backward: Callable[..., tuple[Tensor, ...]],
    kept: int = 0,
) -> Loop:
    """Register ``engram::name`` and ``engram::name_backward``; returns the function to call.

    Args:
        tensors: their schema, such as ``"Tensor gate, Tensor? drive, Tensor start"``. The states have the leading
            axes of the first one, and the last axis of ``start``.
        options: the schema of what follows ``sizes``, such as ``"str activation, bool reverse"``.
        kept: how many arrays beside the states are kept for the backward pass.
    """
    names = [part.split()[-1] for part in tensors.split(",")]
    count, start_at, others = len(names), names.index("start"), 1 + len(options.split(","))
    given = f"{tensors}, Tensor? sizes"

    def checked(*arguments: Any) -> tuple[Tensor, ...]:
        if arguments[count] is not None:
            check_sizes(arguments[count], len(arguments[0]))
        return forward(*arguments)

    run = torch.library.custom_op(
        f"engram::{name}",
        checked,
        mutates_args=(),
        schema=f"({given}, {options}) -> ({', '.join(['Tensor'] * (2 + kept))})",
    )
    gradients = torch.library.custom_op(
        f"engram::{name}_backward",
        backward,
        mutates_args=(),
        schema=f"(Tensor? grad_states, Tensor? grad_final, {given}, Tensor states, "
        f"{''.join(f'Tensor kept{k}, ' for k in range(kept))}{options}) -> "
        f"({', '.join(['Tensor'] * count)})",
    )

    @run.register_fake
    def _(*arguments: Any) -> tuple[Tensor, ...]:
        first, start = arguments[0], arguments[start_at]
        states, *others = [first.new_empty(*first.shape[:-1], start.shape[-1]) for _ in range(1 + kept)]
        return states, start.new_empty(start.shape), *others

    @gradients.register_fake
    def _(_: Any, __: Any, *arguments: Any) -> tuple[Tensor, ...]:
        start = arguments[start_at]
        return tuple(start.new_empty(0) if t is None else t.new_empty(t.shape) for t in arguments[:count])

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[: count + 1], output[0], *output[2:])
        ctx.options = inputs[count + 1 :]
        ctx.set_materialize_grads(False)

    def gradient(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # once: torch.utils.checkpoint gives them out a single time
        arguments, states = saved[: count + 1], saved[count + 1 :]
        grad_states, grad_final = grads[:2]
        needs = ctx.needs_input_grad[:count]
        if grad_states is None and grad_final is None:
            found: Any = [None] * count
        elif torch.is_grad_enabled():
            found = _by_reference(reference, arguments, ctx.options, needs, grad_states, grad_final)
        else:
            found = gradients(grad_states, grad_final, *arguments, *states, *ctx.options)
        return (*(g if need else None for g, need in zip(found, needs, strict=True)), *[None] * others)

    run.register_autograd(gradient, setup_context=setup_context)

    def call(*arguments: Any) -> tuple[Tensor, Tensor]:
        if needs_reference(arguments[start_at]):
            with without_autocast(arguments[start_at]):
                return reference(*arguments)
        loop = checked if may_skip_dispatch(*arguments[: count + 1]) else run
        states, final, *_ = loop(*arguments)
        return states, final

    return call


def _by_reference(
    reference: Loop, arguments: Any, options: Any, needs: Any, grad_states: Tensor | None, grad_final: Tensor | None
) -> list[Tensor | None]:
    """The gradients for a double backward pass: by differentiating the reference loop."""
    pairs = [
        (output, grad)
        for output, grad in zip(reference(*arguments, *options), (grad_states, grad_final), strict=True)
        if grad is not None
    ]
    wanted = [tensor for tensor, need in zip(arguments, needs, strict=False) if need]
    outputs, grads = [output for output, _ in pairs], [grad for _, grad in pairs]
    with without_autocast(outputs[0]):
        found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needs]
