"""The loop as a function with a gradient: both passes of a variant, and the autograd function around them.

What it is given is a list of tensors: drives, fields of the state, weights.
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from engram.errors import DTypeError, ShapeError
from engram.loops import _run
from engram.loops._compile import Compiled, Variant
from engram.loops._export import in_form
from engram.loops._layout import Arrays, Span
from engram.loops._lower import Lowered
from engram.loops._memory import same_memory
from engram.loops._module_views import tensors_of, with_tensors
from engram.loops._plain import scan
from engram.loops._program import Plan
from engram.loops._steps import step_sizes
from engram.loops._trace_cell import Traced
from engram.maps import transformed, without_autocast
from engram.state import each, parts


class LoopFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, found: Compiled, sizes: Tensor | None, reverse: bool, all_steps: bool, *tensors: Tensor
    ) -> Any:
        keep = all_steps and any(ctx.needs_input_grad)
        variant = variant_of(found, list(tensors), sizes)
        arrays, final = run_forward(variant, list(tensors), sizes, reverse, keep, all_steps)
        ctx.variant, ctx.versions = variant, _versions(variant.plan)
        ctx.traced, ctx.reverse, ctx.all_steps = found.traced, reverse, all_steps
        ctx.names = list(arrays) if keep else []
        ctx.save_for_backward(sizes, *tensors, *(arrays.values() if keep else ()))
        ctx.set_materialize_grads(False)
        fixed = [tensor for tensor in final if not (tensor.is_floating_point() or tensor.is_complex())]
        ctx.mark_non_differentiable(*fixed)
        return (arrays["output"], *final) if all_steps else tuple(final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        saved = ctx.saved_tensors  # once: torch.utils.checkpoint gives them out a single time
        sizes, rest = saved[0], list(saved[1:])
        count = len(rest) - len(ctx.names)
        tensors, arrays = rest[:count], dict(zip(ctx.names, rest[count:], strict=True))
        if all(grad is None for grad in grads):
            return (None,) * (4 + count)
        needs = list(ctx.needs_input_grad[4:])
        grad_output, grad_final = (grads[0], grads[1:]) if ctx.all_steps else (None, grads)
        batched = any(grad is not None and is_legacy_batchedtensor(grad) for grad in grads)
        if _versions(ctx.variant.plan) != ctx.versions:
            raise RuntimeError(
                "a tensor that the step reads from outside its cell was changed in place between the forward and the "
                "backward pass. Make it a buffer of the cell, or do not change it"
            )
        if torch.is_grad_enabled() or transformed() or batched:  # a second derivative, or many first ones at once
            given = grads if ctx.all_steps else (None, *grads)
            found = plain_gradients(ctx.traced, tensors, sizes, ctx.reverse, needs, given)
        else:
            if not ctx.all_steps:
                arrays, _ = run_forward(ctx.variant, tensors, sizes, ctx.reverse, True, True)
            found = run_backward(ctx.variant, grad_output, list(grad_final), tensors, arrays, sizes, ctx.reverse, needs)
        return (None, None, None, None, *found)


def _versions(plan: Plan) -> list[int]:
    """How often each constant of a plan was changed in place."""
    return [tensor._version for _, tensor in plan.constants]


def variant_of(found: Compiled, tensors: list[Tensor], sizes: Tensor | None) -> Variant:
    batch = tensors[0].shape[1] if sizes is None else int(sizes[0])
    return found.choose(tensors[0], batch)


def split_tensors(plan: Plan | Lowered, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    d, s = len(plan.drives), len(plan.states)
    return tensors[:d], tensors[d : d + s], tensors[d + s :]


def check_given(plan: Plan, drives: list[Tensor], start: list[Tensor], weights: list[Tensor], sizes: Any) -> None:
    """Refuse tensors of another shape or dtype than the loop was made for: C would read past their end."""
    alive, lead = step_sizes(drives[0], sizes), drives[0].shape[: 1 if sizes is not None else 2]
    given: list[tuple[str, tuple[int, ...], int, Tensor]]
    given = [("what a step is given", tuple(lead), v, t) for v, t in zip(plan.drives, drives, strict=True)]
    given += [("the state", (alive[0],), v, t) for v, t in zip(plan.states, start, strict=True)]
    given += [("a weight", (), v, t) for v, t in zip(plan.weights, weights, strict=True)]
    for what, before, value, tensor in given:
        kind = plan.graph.values[value]
        expected = (*before, *kind.shape)
        if tensor.shape != expected:
            raise ShapeError(f"{what} must have the shape {expected} here, got {tuple(tensor.shape)}")
        if tensor.dtype != kind.dtype:
            raise DTypeError(f"{what} must be of {kind.dtype} here, got {tensor.dtype}. Convert it: .to({kind.dtype})")


def materialised(tensor: Tensor) -> Tensor:
    """The tensor with its numbers in memory: C does not see what torch negates, conjugates or zeroes only when read."""
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        return tensor.clone()
    return tensor.resolve_conj().resolve_neg()


def _rows(drive: Tensor, sizes: Tensor | None) -> Tensor:
    return (drive if sizes is not None else drive.flatten(0, 1)).contiguous()


def _in_own_memory(field: Tensor, others: list[Tensor]) -> Tensor:
    """A field, or a gradient, in memory of its own: whoever changes it in place changes nothing else."""
    memory = field.untyped_storage()
    shared = any(memory.data_ptr() == other.untyped_storage().data_ptr() for other in others)
    return field.clone() if shared or memory.nbytes() != field.nbytes else field


def run_forward(
    variant: Variant, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, keep: bool, all_steps: bool
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The arrays of a forward pass (``output`` in the form of the input), and the last state."""
    plan = variant.plan
    drives, start, weights = split_tensors(plan, [materialised(tensor) for tensor in tensors])
    check_given(plan, drives, start, weights, sizes)
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    with torch.no_grad(), without_autocast(start[0]):
        arrays, final = _run.forward(plan, variant.executor(start[0]), rows, start, weights, span, keep, all_steps)
    final = [_in_own_memory(field, [*start, *arrays.values(), *final[:k]]) for k, field in enumerate(final)]
    arrays |= {f"final{k}": final[k] for k in plan.forward.changes if keep}
    if all_steps and sizes is None:
        output = arrays["output"]
        arrays["output"] = same_memory(output, (len(span.alive), span.alive[0], *output.shape[1:]))
    return arrays, final


def run_backward(
    variant: Variant,
    grad_output: Tensor | None,
    grad_final: list[Tensor | None],
    tensors: list[Tensor],
    arrays: dict[str, Tensor],
    sizes: Tensor | None,
    reverse: bool,
    needs: list[bool],
) -> list[Tensor | None]:
    """One gradient per tensor; None where none is needed."""
    plan = variant.plan
    drives, start, weights = split_tensors(plan, [materialised(tensor) for tensor in tensors])
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    flat = {
        name: array.flatten(0, 1) if sizes is None and name == "output" else array for name, array in arrays.items()
    }
    flat |= {f"drive{k}": drive for k, drive in enumerate(rows)}
    grad_final = [None if grad is None else materialised(grad) for grad in grad_final]
    if grad_output is not None:
        grad_output = _rows(materialised(grad_output), sizes)
    if plan.backward is None:
        return [None] * len(tensors)
    executor = variant.executor(start[0])
    with without_autocast(start[0]):
        gradients = _run.backward(plan, executor, grad_output, grad_final, Arrays(flat, start), weights, span, needs)
    found: list[Tensor | None] = []
    for gradient, tensor in zip(gradients, tensors, strict=True):  # torch adds to a gradient in place
        others = [other for other in found if other is not None]
        found.append(None if gradient is None else _in_own_memory(gradient, others).view(tensor.shape))
    return found


def plain_gradients(
    traced: Traced, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, needs: list[bool], grads: Any
) -> list[Tensor | None]:
    """The gradients for a double backward pass: by differentiating the plain loop."""
    drives, start, weights = split_tensors(traced.lowered, tensors)
    skeleton = traced.skeleton
    cell = with_tensors(skeleton, tensors_of(skeleton) | dict(zip(traced.names, weights, strict=True)))
    form = each(lambda _: None, cell.fields())
    with without_autocast(drives[0]), torch.enable_grad():
        drive: Any = cell.drive(drives[0]) if traced.with_drive else tuple(drives) if traced.several else drives[0]
        output, final = scan(cell.step, drive, in_form(start, form), sizes, reverse, cell.output, cell.fields())
        pairs = [
            (o, g) for o, g in zip([output, *parts(final)], grads, strict=True) if g is not None and o.requires_grad
        ]
        wanted = [tensor for tensor, need in zip(tensors, needs, strict=True) if need]
        made = torch.autograd.grad(
            [o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True
        )
    results = iter(made)
    return [next(results) if need else None for need in needs]
