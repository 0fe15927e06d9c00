"""The additive recurrence when only its last state is wanted: nothing of the size of the sequence is kept.

The states lie in a workspace for the length of the call, and the backward pass runs the steps again. With fresh
memory in its place, small things that stay alive from call to call (the graph) would split what each call gives
back, and a long sequence cut into segments would need the memory of the whole after all.
"""

from typing import Any

import torch
from torch import Tensor

from engram.kernels._additive import by_reference, check_activation, empty_gradients, fill, states_shape
from engram.kernels._choice import needs_reference
from engram.kernels._chunks import backward_in_chunks
from engram.kernels._loops import loops
from engram.kernels._reference import additive_reference
from engram.kernels._workspace import borrow


def additive_last(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None = None,
    sizes: Tensor | None = None,
    activation: str = "tanh",
    reverse: bool = False,
) -> Tensor:
    """The last state ``(B, H)`` of :func:`engram.kernels.additive`; arguments as there. (The plain loop keeps all.)"""
    check_activation(activation, weight_hh, mod_bias)
    arguments = (input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse)
    if needs_reference(start):
        return additive_reference(*arguments)[1]
    final: Tensor = _forward(*arguments)
    return final


@torch.library.custom_op("engram::additive_last", mutates_args=())
def _forward(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> Tensor:
    with borrow(states_shape(input, weight_ih), like=input) as states:
        return fill(states, input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse)


@_forward.register_fake
def _(input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse):  # type: ignore[no-untyped-def]
    return start.new_empty(start.shape)


@torch.library.custom_op("engram::additive_last_backward", mutates_args=())
def _backward(
    grad_final: Tensor,
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    needs_input: bool,
    needs_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight_ih, bias, weight_hh, start, mod_bias; an empty tensor where none is needed."""
    with borrow(states_shape(input, weight_ih), like=input) as states:
        fill(states, input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse)
        return backward_in_chunks(
            loops(states), None, grad_final, input, weight_ih, weight_hh, start, mod_bias, sizes, states,
            activation, reverse, needs_input, needs_weights,
        )  # fmt: skip


@_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    grad_final, input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse, needs_input,
    needs_weights,
):  # fmt: skip
    return empty_gradients(input, weight_ih, weight_hh, start, activation, needs_input, needs_weights)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, activation, reverse = inputs
    ctx.save_for_backward(*tensors)
    ctx.activation, ctx.reverse = activation, reverse


def _gradients(ctx: Any, grad_final: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, sizes = ctx.saved_tensors
    needs = ctx.needs_input_grad
    if torch.is_grad_enabled():
        return by_reference(tensors, sizes, ctx.activation, ctx.reverse, needs, None, grad_final)
    gradients = _backward(grad_final, *tensors, sizes, ctx.activation, ctx.reverse, needs[0], needs[1] or needs[3])
    return (*(g if need else None for g, need in zip(gradients, needs, strict=False)), None, None, None)


_forward.register_autograd(_gradients, setup_context=_setup_context)
