"""The loop of a cell as one differentiable operation.

Outside of torch.compile it is a :class:`torch.autograd.Function`; where operations are followed (torch.compile, export,
fake tensors, a dispatch mode) it is an operator of torch.library with the same two halves. (The operator alone would do
both, but its first call imports torch.compile, which takes longer than a hundred calls.)
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from engram.errors import DTypeError, ShapeError
from engram.loops import _run
from engram.loops._choice import needs_plain, uses_c
from engram.loops._compile import BY_KEY, FEW, Compiled, Variant, compiled_cell, tensors_of, with_tensors
from engram.loops._export import as_scan, exporting, fits_scan, in_form
from engram.loops._layout import Arrays, Span
from engram.loops._memory import seen_as
from engram.loops._plain import scan
from engram.loops._plan import Plan
from engram.loops._steps import check_sizes, step_sizes
from engram.maps import observed, transformed, without_autocast
from engram.state import State, each, parts


def loop(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
    """``state = cell.step(drive_t, state)`` over a whole sequence, by the fastest executor that can.

    Args:
        cell: an :class:`engram.nn.BareCell` whose weights are built.
        input: ``(T, B, D)``; or ``(rows, D)`` with ``sizes``, the data of a PackedSequence.
        state: before the first step.
        sizes: ``(T)``, int64 on the CPU: how many rows are alive at each step of a packed sequence.
        reverse: from the last step to the first.

    Returns:
        the outputs ``(T, B, H)`` or ``(rows, H)``, and the last state.
    """
    if exporting():
        return as_scan(cell, input, state, reverse)
    found = _found(cell, input, state)
    if found is None:
        return plain(cell, input, state, sizes, reverse)
    output, *final = _call(found, cell, input, state, sizes, reverse, whole=True)
    return output, in_form(final, state)


def last(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> State:
    """The last state of :func:`loop` alone: nothing of the size of the sequence is kept, and the backward pass runs the
    steps again. None where the plain loop must run."""
    found = _found(cell, input, state)
    if found is None:
        return None
    return in_form(list(_call(found, cell, input, state, sizes, reverse, whole=False)), state)


def _found(cell: Any, input: Tensor, state: State) -> Compiled | None:
    """The loop of a cell; None if the plain one must run."""
    if needs_plain(parts(state)[0]) or input.numel() == 0:
        return None
    source, width = getattr(cell, "_built_from", cell), input.shape[-1]
    if torch.compiler.is_compiling():
        found: Compiled = loop_of(source, width, source._changes)
    else:
        found = compiled_cell(source, None if observed() else cell, width)  # a mode may have made its weights
    return found if found.lowered is not None else None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def loop_of(cell: Any, width: int, changes: int) -> Compiled:
    """The loop of a cell, made now if there is none. torch.compile does not look into it, and asks again when the
    number of changes of the cell is another."""
    return compiled_cell(cell, width=width)


def _call(
    found: Compiled, cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool, whole: bool
) -> Any:
    tensors = _tensors(found, cell, input, state)
    if observed() or input.is_meta:
        from engram.loops._operator import operator

        keep = whole and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        made = operator(tensors, sizes, found.key, reverse, whole, keep)
        return made[: int(whole) + len(parts(state))]
    if sizes is not None:
        check_sizes(sizes, len(input))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Loop.apply(found, sizes, reverse, whole, *tensors)
    if sizes is None and len(input) == 1 and (once := _once(found, tensors)) is not None:
        return once if whole else once[1:]
    arrays, final = run_forward(_variant(found, tensors, sizes), tensors, sizes, reverse, False, whole)
    return (arrays["output"], *final) if whole else tuple(final)


def _once(found: Compiled, tensors: list[Tensor]) -> tuple[Tensor, ...] | None:
    """A single step, by the shortest way to C: what a program does that makes text. None where C cannot."""
    batch = tensors[0].shape[1]
    if batch > FEW or not uses_c(tensors[0]):
        return None
    variant = found.variant(hoist=False, rebuild=True)
    if variant.loops is None or not variant.loops.ready():
        return None
    plan = variant.plan
    drives, start, weights = _divided(plan, [numbers_of(tensor) for tensor in tensors])
    _check(plan, drives, start, weights, None)
    drives = [drive.contiguous() for drive in drives]
    final = [field.clone(memory_format=torch.contiguous_format) for field in start]
    shown = plan.graph.values[plan.outputs[0]]
    output = torch.empty((1, batch, *shown.shape), dtype=shown.dtype)
    given = {f"drive{k}": drive.data_ptr() for k, drive in enumerate(drives)}
    given["output"] = output.data_ptr()
    variant.loops.once(plan.forward, given, final, _run.weights_of(plan, weights, forward=True), batch)
    return output, *final


def plain(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
    """The Python loop; where torch.compile follows it, which would unroll it for each length, torch's scan."""
    if torch.compiler.is_compiling() and sizes is None and fits_scan(cell):
        return as_scan(cell, input, state, reverse)
    with without_autocast(input):
        return scan(cell.step, cell.drive(input), state, sizes, reverse, cell.output, cell.fields())


def _tensors(found: Compiled, cell: Any, input: Tensor, state: State) -> list[Tensor]:
    """What the loop is given: drives, fields, weights."""
    if found.with_drive:
        drives: tuple[Tensor, ...] = (input,)
    else:
        with without_autocast(input):
            drive = cell.drive(input)
        drives = drive if isinstance(drive, tuple) else (drive,)
    return [*drives, *parts(state), *(_named(cell, name) for name in found.names)]


def _named(cell: Any, name: str) -> Tensor:
    """A tensor of a cell; the dots of its name lead through modules."""
    *path, last = name.split(".")
    for part in path:
        cell = cell._modules[part]
    for place in (cell._parameters, cell._buffers, cell.__dict__):
        if (tensor := place.get(last)) is not None:
            found: Tensor = tensor
            return found
    raise KeyError(name)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, found: Compiled, sizes: Tensor | None, reverse: bool, whole: bool, *tensors: Tensor) -> Any:
        keep = whole and any(ctx.needs_input_grad)
        variant = _variant(found, list(tensors), sizes)
        arrays, final = run_forward(variant, list(tensors), sizes, reverse, keep, whole)
        ctx.variant, ctx.versions = variant, _versions(variant.plan)
        ctx.found, ctx.reverse, ctx.whole = found, reverse, whole
        ctx.names = list(arrays) if keep else []
        ctx.save_for_backward(sizes, *tensors, *(arrays.values() if keep else ()))
        ctx.set_materialize_grads(False)
        fixed = [tensor for tensor in final if not (tensor.is_floating_point() or tensor.is_complex())]
        ctx.mark_non_differentiable(*fixed)
        return (arrays["output"], *final) if whole else tuple(final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        saved = ctx.saved_tensors  # once: torch.utils.checkpoint gives them out a single time
        sizes, rest = saved[0], list(saved[1:])
        count = len(rest) - len(ctx.names)
        tensors, arrays = rest[:count], dict(zip(ctx.names, rest[count:], strict=True))
        if all(grad is None for grad in grads):
            return (None,) * (4 + count)
        needs = list(ctx.needs_input_grad[4:])
        grad_output, grad_final = (grads[0], grads[1:]) if ctx.whole else (None, grads)
        batched = any(grad is not None and is_legacy_batchedtensor(grad) for grad in grads)
        if _versions(ctx.variant.plan) != ctx.versions:
            raise RuntimeError(
                "a tensor that the step reads from outside its cell was changed in place between the forward and the "
                "backward pass. Make it a buffer of the cell, or do not change it"
            )
        if torch.is_grad_enabled() or transformed() or batched:  # a second derivative, or many first ones at once
            given = grads if ctx.whole else (None, *grads)
            found = by_plain(ctx.found, tensors, sizes, ctx.reverse, needs, given)
        else:
            if not ctx.whole:
                arrays, _ = run_forward(ctx.variant, tensors, sizes, ctx.reverse, True, True)
            found = run_backward(ctx.variant, grad_output, list(grad_final), tensors, arrays, sizes, ctx.reverse, needs)
        return (None, None, None, None, *found)


def _versions(plan: Plan) -> list[int]:
    """How often each constant of a plan was changed in place."""
    return [tensor._version for _, tensor in plan.constants if isinstance(tensor, Tensor)]


def executor_of(variant: Variant, like: Tensor) -> Any:
    """What runs a program of a variant."""
    return variant.executor(like)


def _variant(found: Compiled, tensors: list[Tensor], sizes: Tensor | None) -> Variant:
    like, batch = tensors[0], tensors[0].shape[1] if sizes is None else int(sizes[0])
    return found.choose(like, batch)


def _divided(plan: Plan, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    d, s = len(plan.drives), len(plan.states)
    return tensors[:d], tensors[d : d + s], tensors[d + s :]


def _check(plan: Plan, drives: list[Tensor], start: list[Tensor], weights: list[Tensor], sizes: Any) -> None:
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


def numbers_of(tensor: Tensor) -> Tensor:
    """The same tensor in memory as it is: C would read past what torch negates, conjugates or zeroes only later."""
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        return tensor.clone()
    return tensor.resolve_conj().resolve_neg()


def _rows(drive: Tensor, sizes: Tensor | None) -> Tensor:
    return (drive if sizes is not None else drive.flatten(0, 1)).contiguous()


def _own(field: Tensor, others: list[Tensor]) -> Tensor:
    """A field in memory of its own: whoever changes it in place changes nothing else."""
    return field.clone() if field._is_view() or any(field is other for other in others) else field


def run_forward(
    variant: Variant, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, keep: bool, whole: bool
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The arrays of a forward pass (``output`` in the form of the input), and the last state."""
    plan = variant.plan
    drives, start, weights = _divided(plan, [numbers_of(tensor) for tensor in tensors])
    _check(plan, drives, start, weights, sizes)
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    with torch.no_grad(), without_autocast(start[0]):
        arrays, final = _run.forward(plan, executor_of(variant, start[0]), rows, start, weights, span, keep, whole)
    final = [_own(field, [*start, *final[:k]]) for k, field in enumerate(final)]
    arrays |= {f"final{k}": final[k] for k in plan.forward.changes if keep}
    if whole and sizes is None:
        output = arrays["output"]
        arrays["output"] = seen_as(output, (len(span.alive), span.alive[0], *output.shape[1:]), output.dtype)
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
    drives, start, weights = _divided(plan, [numbers_of(tensor) for tensor in tensors])
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    flat = {
        name: array.flatten(0, 1) if sizes is None and name == "output" else array for name, array in arrays.items()
    }
    flat |= {f"drive{k}": drive for k, drive in enumerate(rows)}
    grad_final = [None if grad is None else numbers_of(grad) for grad in grad_final]
    if grad_output is not None:
        grad_output = _rows(numbers_of(grad_output), sizes)
    if plan.backward is None:
        return [None] * len(tensors)
    executor = executor_of(variant, start[0])
    with without_autocast(start[0]):
        gradients = _run.backward(plan, executor, grad_output, grad_final, Arrays(flat, start), weights, span, needs)
    return [None if g is None else g.view(t.shape) for g, t in zip(gradients, tensors, strict=True)]


def by_plain(
    found: Compiled, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, needs: list[bool], grads: Any
) -> list[Tensor | None]:
    """The gradients for a double backward pass: by differentiating the plain loop."""
    drives, start, weights = _divided(found.variant(hoist=True, rebuild=True).plan, tensors)
    own = tensors_of(found.skeleton)
    cell = with_tensors(found.skeleton, own | dict(zip(found.names, weights, strict=True)))
    form = each(lambda _: None, cell.fields())
    with without_autocast(drives[0]), torch.enable_grad():
        drive: Any = cell.drive(drives[0]) if found.with_drive else tuple(drives) if found.several else drives[0]
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


__all__ = ["BY_KEY", "last", "loop", "plain"]
