"""The loop as an operator of torch.library: for torch.compile and everything else that follows operations.

``engram::loop`` takes lists of tensors and the name of a loop made before; its gradient is an operator too.
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops._compile import BY_KEY, Variant
from engram.loops._function import plain_gradients, run_backward, run_forward
from engram.loops._steps import check_sizes


def _variant(name: str, reference: Tensor) -> Variant:
    """Whatever the batch is: it may not be known where operations are followed."""
    return BY_KEY[name].choose(reference, None)


@torch.library.custom_op(
    "engram::loop",
    mutates_args=(),
    schema="(Tensor[] tensors, Tensor? sizes, str name, bool reverse, bool all_steps, bool keep) -> Tensor[]",
)
def operator(tensors: Any, sizes: Tensor | None, name: str, reverse: bool, all_steps: bool, keep: bool) -> list[Tensor]:
    """``output`` (if ``all_steps``), the fields of the last state, and (if ``keep``) what the backward pass needs."""
    if sizes is not None:
        check_sizes(sizes, len(tensors[0]))
    arrays, final = run_forward(_variant(name, tensors[0]), list(tensors), sizes, reverse, keep, all_steps)
    kept = [array for n, array in arrays.items() if n != "output"]
    return [*([arrays["output"]] if all_steps else []), *final, *kept]


@operator.register_fake
def _(tensors: Any, sizes: Tensor | None, name: str, reverse: bool, all_steps: bool, keep: bool) -> list[Tensor]:
    plan = _variant(name, tensors[0]).plan
    d, s = len(plan.drives), len(plan.states)
    first, start, values = tensors[0], tensors[d : d + s], plan.graph.values
    lead = first.shape[: -len(values[plan.drives[0]].shape)] if values[plan.drives[0]].shape else first.shape
    shown = values[plan.outputs[0]]
    found = [first.new_empty((*lead, *shown.shape), dtype=shown.dtype)] if all_steps else []
    found += [field.new_empty(field.shape) for field in start]
    if keep:
        rows = lead[0] if sizes is not None else lead[0] * lead[1]
        for value in plan.kept.values():
            kind = values[value]
            found.append(first.new_empty((rows, *kind.shape), dtype=kind.dtype))
    return found


@torch.library.custom_op(
    "engram::loop_backward",
    mutates_args=(),
    schema="(Tensor?[] grads, Tensor[] tensors, Tensor[] kept, Tensor? sizes, str name, bool reverse, bool all_steps, "
    "bool[] needs) -> Tensor[]",
)
def gradient(
    grads: Any,
    tensors: Any,
    kept: Any,
    sizes: Tensor | None,
    name: str,
    reverse: bool,
    all_steps: bool,
    needs: list[bool],
) -> list[Tensor]:
    """One gradient per tensor; an empty one where there is none."""
    variant, tensors = _variant(name, tensors[0]), list(tensors)
    plan = variant.plan
    arrays = dict(zip(["output", *plan.kept], kept, strict=True)) if all_steps else {}
    if not all_steps:
        arrays, _ = run_forward(variant, tensors, sizes, reverse, True, True)
    grad_output, *grad_final = grads if all_steps else (None, *grads)
    made = run_backward(variant, grad_output, grad_final, tensors, arrays, sizes, reverse, needs)
    return [tensor.new_empty(0) if g is None else g for g, tensor in zip(made, tensors, strict=True)]


@gradient.register_fake
def _(grads, tensors, kept, sizes, name, reverse, all_steps, needs):  # type: ignore[no-untyped-def]
    plan = _variant(name, tensors[0]).plan
    has = [needs[k] and _has_gradient(plan, k) for k in range(len(tensors))]
    return [t.new_empty(t.shape if there else 0) for t, there in zip(tensors, has, strict=True)]


def _has_gradient(plan: Any, k: int) -> bool:
    """As :func:`engram.loops._run.backward`: fields always pass on what arrives."""
    field = k - len(plan.drives)
    if 0 <= field < len(plan.states):
        return plan.arriving[field] is not None and plan.backward is not None
    return plan.gradients[k] is not None


def _setup(ctx: Any, inputs: Any, output: list[Tensor]) -> None:
    tensors, sizes, ctx.loop, ctx.reverse, ctx.all_steps, keep = inputs
    ctx.found = BY_KEY[ctx.loop]  # lives as long as this
    plan = _variant(ctx.loop, tensors[0]).plan
    shown = int(ctx.all_steps)
    kept = [*output[:shown], *output[shown + len(plan.states) :]] if keep else []
    ctx.save_for_backward(sizes, *tensors, *kept)
    ctx.count = len(tensors)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grads: list[Tensor | None]) -> Any:
    saved = ctx.saved_tensors
    sizes, tensors, kept = saved[0], list(saved[1 : 1 + ctx.count]), list(saved[1 + ctx.count :])
    plan = _variant(ctx.loop, tensors[0]).plan
    grads = list(grads[: int(ctx.all_steps) + len(plan.states)])
    needs = list(ctx.needs_input_grad[0])
    if all(grad is None for grad in grads):
        made: list[Tensor | None] = [None] * ctx.count
    elif torch.is_grad_enabled() and not torch.compiler.is_compiling():
        given = grads if ctx.all_steps else [None, *grads]
        made = plain_gradients(ctx.found.traced, tensors, sizes, ctx.reverse, needs, given)
    else:
        made = list(gradient(grads, tensors, kept, sizes, ctx.loop, ctx.reverse, ctx.all_steps, needs))
        there = [need and _has_gradient(plan, k) for k, need in enumerate(needs)]
        made = [g if have else None for g, have in zip(made, there, strict=True)]
    return made, None, None, None, None, None


operator.register_autograd(_gradients, setup_context=_setup)
