"""The additive recurrence as one custom operator with hand-derived gradients.

    h_t = act(z_t),   z_t = W_hh h_{t-1} + W_ih x_t + b

    dL/dz_t = act'(z_t) (dL/dh_t + W_hh^* dL/dz_{t+1})
    dL/dW_hh = sum_t dL/dz_t h_{t-1}^*,   dL/dW_ih = sum_t dL/dz_t x_t^*,   dL/db = sum_t dL/dz_t
    dL/dx_t = W_ih^* dL/dz_t

(spec/spectral.md section 1.) The input projection is one product over all steps, written into the memory that the
loop then turns into the states, which the caller gets and the backward pass needs: the only array of the size of the
sequence. The backward pass is in :mod:`engram.kernels._chunks`.
"""

from typing import Any

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice
from engram.kernels._activations import ACTIVATIONS, check_activation_dtype
from engram.kernels._choice import may_skip_dispatch, needs_reference
from engram.kernels._chunks import backward_in_chunks
from engram.kernels._loops import loops
from engram.kernels._products import affine_
from engram.kernels._reference import additive_reference
from engram.kernels._steps import check_sizes
from engram.maps import without_autocast


def additive(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None = None,
    sizes: Tensor | None = None,
    activation: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run h_t = act(W_hh h_{t-1} + W_ih x_t + b) over a whole sequence.

    Args:
        input: ``(T, B, D)``; or ``(rows, D)`` with ``sizes``, the data of a PackedSequence.
        weight_ih: ``(H, D)``.
        bias: ``(H)`` or None.
        weight_hh: ``(H, H)``.
        start: ``(B, H)``, the state before the first step.
        mod_bias: ``(H)``, real: modReLU's bias; None for every other activation.
        sizes: ``(T)``, int64 on the CPU: how many rows are alive at each step of a packed sequence.
        activation: one of ``identity, tanh, relu, sigmoid, modrelu``.
        reverse: from the last step to the first.

    Returns:
        the states ``(T, B, H)`` or ``(rows, H)``, and the last state ``(B, H)``.
    """
    check_activation(activation, weight_hh, mod_bias)
    arguments = (input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse)
    if needs_reference(start):
        return additive_reference(*arguments)
    loop = _run if may_skip_dispatch(*arguments[:7]) else _forward
    states, final = loop(*arguments)
    return states, final


def check_activation(activation: str, weight_hh: Tensor, mod_bias: Tensor | None) -> None:
    """A known one, for this dtype, with the bias that belongs to it."""
    check_choice("activation", activation, ACTIVATIONS)
    check_activation_dtype(activation, weight_hh.dtype)
    if (mod_bias is None) is (activation == "modrelu"):
        given = "None" if mod_bias is None else "one"
        raise OptionError(f"mod_bias is for activation 'modrelu' and no other, got {given} for {activation!r}")


def _run(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    states = input.new_empty(states_shape(input, weight_ih))
    final = fill(states, input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse)
    return states, final


_forward = torch.library.custom_op("engram::additive", _run, mutates_args=())


def fill(
    states: Tensor,
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
    """Write the states into memory given; returns the last one."""
    if sizes is not None:
        check_sizes(sizes, len(input))
    affine_(states, input, weight_ih, bias)
    return loops(states).forward_loop(states, weight_hh, start, mod_bias, sizes, activation, reverse)


def states_shape(input: Tensor, weight_ih: Tensor) -> tuple[int, ...]:
    return (*input.shape[:-1], weight_ih.shape[0])


@_forward.register_fake
def _(input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse):  # type: ignore[no-untyped-def]
    return input.new_empty(states_shape(input, weight_ih)), start.new_empty(start.shape)


@torch.library.custom_op("engram::additive_backward", mutates_args=())
def _backward(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    input: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    states: Tensor,
    activation: str,
    reverse: bool,
    needs_input: bool,
    needs_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight_ih, bias, weight_hh, start, mod_bias; an empty tensor where none is needed."""
    return backward_in_chunks(
        loops(states), grad_states, grad_final, input, weight_ih, weight_hh, start, mod_bias, sizes, states,
        activation, reverse, needs_input, needs_weights,
    )  # fmt: skip


@_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    grad_states, grad_final, input, weight_ih, weight_hh, start, mod_bias, sizes, states, activation, reverse,
    needs_input, needs_weights,
):  # fmt: skip
    return empty_gradients(input, weight_ih, weight_hh, start, activation, needs_input, needs_weights)


def empty_gradients(
    input: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    start: Tensor,
    activation: str,
    needs_input: bool,
    needs_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The shapes of what :func:`_backward` returns."""
    nothing, hidden = start.new_empty(0), start.shape[-1]
    real = torch.empty(0, dtype=start.dtype).real.dtype
    return (
        input.new_empty(input.shape) if needs_input else nothing,
        weight_ih.new_empty(weight_ih.shape) if needs_weights else nothing.clone(),
        start.new_empty(hidden),
        weight_hh.new_empty(weight_hh.shape) if needs_weights else nothing.clone(),
        start.new_empty(start.shape),
        start.new_empty(hidden if activation == "modrelu" else 0, dtype=real),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    input, weight_ih, bias, weight_hh, start, mod_bias, sizes, activation, reverse = inputs
    ctx.save_for_backward(input, weight_ih, bias, weight_hh, start, mod_bias, sizes, output[0])
    ctx.activation, ctx.reverse = activation, reverse
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad_states: Tensor | None, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
    input, weight_ih, bias, weight_hh, start, mod_bias, sizes, states = ctx.saved_tensors
    needs = ctx.needs_input_grad
    if grad_states is None and grad_final is None:
        return (None,) * 9
    if torch.is_grad_enabled():
        tensors = (input, weight_ih, bias, weight_hh, start, mod_bias)
        return by_reference(tensors, sizes, ctx.activation, ctx.reverse, needs, grad_states, grad_final)
    gradients = _backward(
        grad_states, grad_final, input, weight_ih, weight_hh, start, mod_bias, sizes, states,
        ctx.activation, ctx.reverse, needs[0], needs[1] or needs[3],
    )  # fmt: skip
    return (*(g if need else None for g, need in zip(gradients, needs, strict=False)), None, None, None)


def by_reference(
    tensors: Any,  # a tuple: input, weight_ih, bias, weight_hh, start, mod_bias
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    needs: tuple[bool, ...],
    grad_states: Tensor | None,
    grad_final: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradients for a double backward pass: by differentiating the reference loop."""
    arguments = (*tensors, sizes, activation, reverse)
    outputs = additive_reference(*arguments)
    pairs = [p for p in zip(outputs, (grad_states, grad_final), strict=True) if p[1] is not None]
    with without_autocast(tensors[0]):
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            [tensor for tensor, need in zip(tensors, needs, strict=False) if need],
            [grad for _, grad in pairs],
            create_graph=True,
            allow_unused=True,
        )
    found = iter(gradients)
    return (*(next(found) if need else None for need in needs[:6]), None, None, None)


_forward.register_autograd(_gradients, setup_context=_setup_context)
