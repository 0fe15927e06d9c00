"""The loop of a cell as one differentiable operation.

Usually it is a :class:`torch.autograd.Function`; where torch records operations (torch.compile, export, fake tensors, a
dispatch mode) it is an operator of torch.library that calls the same two functions. (The operator alone would do, but
its first call imports torch.compile, which takes longer than a hundred calls.)
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops._choice import needs_plain
from engram.loops._compile import Compiled, compiled_cell
from engram.loops._export import as_scan, exporting, fits_scan, in_form
from engram.loops._function import LoopFunction, run_forward, variant_of
from engram.loops._module_views import named
from engram.loops._plain import scan
from engram.loops._several import several_loops
from engram.loops._single_step import single_step
from engram.loops._steps import check_sizes
from engram.loops._trace_cell import tensors_read
from engram.maps import members, observed, without_autocast
from engram.state import State, parts


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
    found = _compiled_loop(cell, input, state, sizes)
    if found is None:
        return plain(cell, input, state, sizes, reverse)
    output, *final = _call(found, cell, input, state, sizes, reverse, all_steps=True)
    return output, in_form(final, state)


def last(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> State:
    """The last state of :func:`loop` alone: nothing of the size of the sequence is kept, and the backward pass runs the
    steps again. None where the plain loop must run."""
    found = _compiled_loop(cell, input, state, sizes)
    if found is None:
        return None
    return in_form(list(_call(found, cell, input, state, sizes, reverse, all_steps=False)), state)


def _compiled_loop(cell: Any, input: Tensor, state: State, sizes: Tensor | None) -> Compiled | None:
    """The loop of a cell; None if the plain one must run."""
    if needs_plain(parts(state)[0]) or input.numel() == 0 or (sizes is not None and members()):
        return None
    source, width = getattr(cell, "_built_from", cell), input.shape[-1]
    if torch.compiler.is_compiling():
        found: Compiled = loop_of(source, width, source._changes)
    else:
        found = compiled_cell(source, None if observed() else cell, width)  # a mode may have made its weights
    return None if found.traced is None else found


def loop_of(cell: Any, width: int, changes: int) -> Compiled:
    """The loop of a cell, made now if there is none. torch.compile does not trace this function, and calls it again
    when ``changes``, which counts the changes of the cell, is another number."""
    return compiled_cell(cell, width=width)


def read_of(cell: Any, width: int, changes: int) -> tuple[str, ...]:
    """:func:`tensors_read` of a cell, which torch.compile does not trace either."""
    return tensors_read(cell, width)


# What torch.compiler.assume_constant_result does, which also imports torch._dynamo: longer than torch itself takes.
loop_of._dynamo_marked_constant = read_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _call(
    found: Compiled, cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool, all_steps: bool
) -> Any:
    tensors = _tensors(found.traced, cell, input, state)
    if members():
        return several_loops(found, reverse, all_steps, tensors)
    if observed() or input.is_meta:
        from engram.loops._operator import operator

        keep = all_steps and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        made = operator(tensors, sizes, found.key, reverse, all_steps, keep)
        return made[: int(all_steps) + len(parts(state))]
    if sizes is not None:
        check_sizes(sizes, len(input))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return LoopFunction.apply(found, sizes, reverse, all_steps, *tensors)
    if sizes is None and len(input) == 1 and (single := single_step(found, tensors)) is not None:
        return single if all_steps else single[1:]
    arrays, final = run_forward(variant_of(found, tensors, sizes), tensors, sizes, reverse, False, all_steps)
    return (arrays["output"], *final) if all_steps else tuple(final)


def plain(cell: Any, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
    """The Python loop; under torch.compile, which would unroll it for each length, torch's scan."""
    if torch.compiler.is_compiling() and sizes is None and fits_scan(cell):
        source = getattr(cell, "_built_from", cell)
        return as_scan(cell, input, state, reverse, read_of(source, input.shape[-1], source._changes))
    with without_autocast(input):
        return scan(cell.step, cell.drive(input), state, sizes, reverse, cell.output, cell.fields())


def _tensors(traced: Any, cell: Any, input: Tensor, state: State) -> list[Tensor]:
    """What the loop is given: drives, fields, weights."""
    if traced.with_drive:
        drives: tuple[Tensor, ...] = (input,)
    else:
        with without_autocast(input):
            drive = cell.drive(input)
        drives = drive if isinstance(drive, tuple) else (drive,)
    return [*drives, *parts(state), *(named(cell, name) for name in traced.names)]
