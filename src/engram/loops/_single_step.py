"""A single step without a gradient, with few Python calls: for programs that generate text token by token."""

from typing import Any

import torch
from torch import Tensor

from engram.loops import _run
from engram.loops._choice import uses_c
from engram.loops._compile import FEW_ROWS, Compiled, compiled_cell
from engram.loops._compiled import Loops
from engram.loops._function import check_given, materialised, split_tensors
from engram.loops._module_views import named
from engram.loops._program import Plan


def step_in_place(cell: Any, input: Tensor, fields: list[Tensor]) -> Tensor | None:
    """The output ``(1, B, H)`` of one step; the fields of the state before become those of the state after.

    Args:
        cell: an :class:`engram.nn.BareCell` whose weights are built.
        input: ``(1, B, D)``, contiguous.
        fields: of the state, each ``(B, *shape)`` and contiguous.

    Returns:
        None where C has no such step; nothing is changed then.
    """
    batch = input.shape[1]
    if batch > FEW_ROWS or batch == 0 or not uses_c(input):
        return None
    found = compiled_cell(getattr(cell, "_built_from", cell), cell, input.shape[-1])
    if found.traced is None or not found.traced.with_drive or (variant := _variant(found)) is None:
        return None
    weights = [named(cell, name) for name in found.traced.names]
    if not _fits(variant[0], input, fields, weights, batch):
        return None
    return _run_step(*variant, [input], fields, weights)


def single_step(found: Compiled, tensors: list[Tensor]) -> tuple[Tensor, ...] | None:
    """Output and last state of one step, given what a loop is given. None where C cannot."""
    batch = tensors[0].shape[1]
    if batch > FEW_ROWS or not uses_c(tensors[0]) or (variant := _variant(found)) is None:
        return None
    drives, start, weights = split_tensors(variant[0], [materialised(tensor) for tensor in tensors])
    check_given(variant[0], drives, start, weights, None)
    final = [field.clone(memory_format=torch.contiguous_format) for field in start]
    output = _run_step(*variant, [drive.contiguous() for drive in drives], final, weights)
    return output, *final


def _variant(found: Compiled) -> tuple[Plan, Loops] | None:
    """The plan of a single step, and its C."""
    variant = found.variant(hoist=False, rebuild=True)
    return (variant.plan, variant.loops) if variant.loops is not None and variant.loops.ready() else None


def _fits(plan: Plan, input: Tensor, fields: list[Tensor], weights: list[Tensor], batch: int) -> bool:
    """Whether all have the shape, the dtype and the memory that C reads."""
    values = plan.graph.values
    given: list[tuple[tuple[int, ...], int, Tensor]]
    given = [((1, batch), plan.drives[0], input)]
    given += [((batch,), value, field) for value, field in zip(plan.states, fields, strict=True)]
    given += [((), value, weight) for value, weight in zip(plan.weights, weights, strict=True)]
    return all(
        tensor.shape == (*lead, *values[value].shape)
        and tensor.dtype == values[value].dtype
        and tensor.is_cpu
        and not tensor.is_neg()
        for lead, value, tensor in given
    )


def _run_step(plan: Plan, loops: Loops, drives: list[Tensor], fields: list[Tensor], weights: list[Tensor]) -> Tensor:
    shown, batch = plan.graph.values[plan.outputs[0]], drives[0].shape[1]
    output = torch.empty((1, batch, *shown.shape), dtype=shown.dtype)
    given = {f"drive{k}": drive.data_ptr() for k, drive in enumerate(drives)}
    given["output"] = output.data_ptr()
    loops.single_step(plan.forward, given, fields, _run.weights_of(plan, weights, forward=True), batch)
    return output
