"""The loop of a cell as one differentiable operation.

Outside of torch.compile it is a :class:`torch.autograd.Function`; where operations are followed (torch.compile, export,
fake tensors, a dispatch mode) it is an operator of torch.library with the same two halves. (The operator alone would do
both, but its first call imports torch.compile, which takes longer than a hundred calls.)
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops import _run, _torch
from engram.loops._choice import needs_plain, uses_c
from engram.loops._compile import BY_KEY, Compiled, compiled_cell, tensors_of, with_tensors
from engram.loops._export import as_scan, exporting, fits_scan, in_form
from engram.loops._layout import Arrays, Span
from engram.loops._plain import scan
from engram.loops._steps import check_sizes, step_sizes
from engram.maps import observed, without_autocast
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
    source = getattr(cell, "_built_from", cell)
    found: Compiled = loop_of(source, source._changes)
    return found if found.plan is not None else None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def loop_of(cell: Any, changes: int) -> Compiled:
    """The loop of a cell, made now if there is none. torch.compile does not look into it, and asks again when the
    number of changes of the cell is another."""
    return compiled_cell(cell)


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
    return _Loop.apply(found, sizes, reverse, whole, *tensors)


def plain(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
    """The Python loop; where torch.compile follows it, which would unroll it for each length, torch's scan."""
    if torch.compiler.is_compiling() and sizes is None and fits_scan(cell):
        return as_scan(cell, input, state, reverse)
    with without_autocast(input):
        return scan(cell.step, cell.drive(input), state, sizes, reverse, cell.output, cell.fields())


def _tensors(found: Compiled, cell: Any, input: Tensor, state: State) -> list[Tensor]:
    """What the loop is given: drives, fields, weights."""
    own = tensors_of(cell)
    drive = input if found.with_drive else cell.drive(input)
    drives = drive if isinstance(drive, tuple) else (drive,)
    return [*drives, *parts(state), *(own[name] for name in found.names)]


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, found: Compiled, sizes: Tensor | None, reverse: bool, whole: bool, *tensors: Tensor) -> Any:  # type: ignore[override]
        keep = whole and any(ctx.needs_input_grad)
        arrays, final = run_forward(found, list(tensors), sizes, reverse, keep, whole)
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
        if torch.is_grad_enabled():
            given = grads if ctx.whole else (None, *grads)
            found = by_plain(ctx.found, tensors, sizes, ctx.reverse, needs, given)
        else:
            if not ctx.whole:
                arrays, _ = run_forward(ctx.found, tensors, sizes, ctx.reverse, True, True)
            found = run_backward(ctx.found, grad_output, list(grad_final), tensors, arrays, sizes, ctx.reverse, needs)
        return (None, None, None, None, *found)


def executor_of(found: Compiled, like: Tensor) -> Any:
    if found.loops is not None and uses_c(like) and found.loops.ready():
        return found.loops
    return _torch.run


def _divided(found: Compiled, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    assert found.plan is not None
    d, s = len(found.plan.drives), len(found.plan.states)
    return tensors[:d], tensors[d : d + s], tensors[d + s :]


def _rows(drive: Tensor, sizes: Tensor | None) -> Tensor:
    return (drive if sizes is not None else drive.flatten(0, 1)).contiguous()


def run_forward(
    found: Compiled, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, keep: bool, whole: bool
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The arrays of a forward pass (``output`` in the form of the input), and the last state."""
    assert found.plan is not None
    drives, start, weights = _divided(found, [tensor.detach() for tensor in tensors])
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    with torch.no_grad():
        arrays, final = _run.forward(found.plan, executor_of(found, start[0]), rows, start, weights, span, keep, whole)
    final = [field.clone() if any(field is s for s in start) else field for field in final]
    if whole and sizes is None:
        arrays["output"] = arrays["output"].unflatten(0, (len(span.alive), span.alive[0]))
    return arrays, final


def run_backward(
    found: Compiled,
    grad_output: Tensor | None,
    grad_final: list[Tensor | None],
    tensors: list[Tensor],
    arrays: dict[str, Tensor],
    sizes: Tensor | None,
    reverse: bool,
    needs: list[bool],
) -> list[Tensor | None]:
    """One gradient per tensor; None where none is needed."""
    plan = found.plan
    assert plan is not None
    drives, start, weights = _divided(found, [tensor.detach() for tensor in tensors])
    span = Span.whole(step_sizes(drives[0], sizes), reverse)
    rows, start = [_rows(drive, sizes) for drive in drives], [field.contiguous() for field in start]
    flat = {
        name: array.flatten(0, 1) if sizes is None and name == "output" else array for name, array in arrays.items()
    }
    flat |= {f"drive{k}": drive for k, drive in enumerate(rows)}
    if grad_output is not None:
        grad_output = _rows(grad_output, sizes)
    if plan.backward is None:
        return [None] * len(tensors)
    executor = executor_of(found, start[0])
    gradients = _run.backward(plan, executor, grad_output, grad_final, Arrays(flat, start), weights, span, needs)
    return [None if g is None else g.view(t.shape) for g, t in zip(gradients, tensors, strict=True)]


def by_plain(
    found: Compiled, tensors: list[Tensor], sizes: Tensor | None, reverse: bool, needs: list[bool], grads: Any
) -> list[Tensor | None]:
    """The gradients for a double backward pass: by differentiating the plain loop."""
    drives, start, weights = _divided(found, tensors)
    own = tensors_of(found.skeleton)
    cell = with_tensors(found.skeleton, own | dict(zip(found.names, weights, strict=True)))
    form = each(lambda _: None, cell.fields())
    drive: Any = cell.drive(drives[0]) if found.with_drive else drives[0] if len(drives) == 1 else tuple(drives)
    with without_autocast(drives[0]):
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
