"""A plan run over a sequence, forwards and backwards, in chunks of steps that fit the cache."""

from typing import Any

import torch
from torch import Tensor

from engram.loops import _torch
from engram.loops._buffers import Changes, new_array, restore_slots, start_rebuilding
from engram.loops._graph import RowSum
from engram.loops._layout import Arrays, Span
from engram.loops._products import column_sums, matmul
from engram.loops._program import Plan, Source, used
from engram.loops._slots import record_bytes

CHUNK_BYTES = 4 * 2**20
"""What a chunk needs beside the sequence: enough rows for a product, few enough for the cache."""
TORCH_CHUNK_BYTES = 16 * 2**20
"""The same for torch operations: fewer calls save more time than the cache does."""


def weights_of(plan: Plan, weights: list[Tensor], forward: bool = False) -> dict[Any, Any]:
    """The shared values: weights, constants, and what is made of them before the loop (of the forward pass alone)."""
    if forward not in plan.functions:
        nodes = plan.before[: plan.forward_nodes] if forward else plan.before
        given = [*plan.weights, *(value for value, _ in plan.constants)]
        plan.functions[forward] = _torch.run_shared(plan.graph, nodes, given)
    found: dict[Any, Any] = plan.functions[forward](*weights, *(tensor for _, tensor in plan.constants))
    return found


def forward(
    plan: Plan,
    executor: Any,
    drives: list[Tensor],
    start: list[Tensor],
    weights: list[Tensor],
    span: Span,
    keep: bool,
    all_steps: bool = True,
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """All steps; returns the arrays ``output`` and, to ``keep``, those of the backward pass, and the last state.

    Args:
        drives: each ``(rows, *shape)``.
        start: the fields of the state, each ``(B, *shape)``.
    """
    shared, rows = weights_of(plan, weights, forward=True), span.first[-1]
    names = ({"output": plan.outputs[0]} if all_steps else {}) | (plan.kept if keep else {})
    tensors = {name: new_array(plan, value, rows, start[0]) for name, value in names.items()}
    changes = Changes(plan, tensors, rows, start[0]) if keep else None
    arrays = Arrays(tensors | {f"drive{k}": drive for k, drive in enumerate(drives)}, start)
    carried = list(start)
    width = width_of(plan, plan.hoisted_arrays.values()) + record_bytes(plan)
    for chunk in span.chunks(width, _bytes(executor), backwards=False):
        hoist(plan, shared, arrays, chunk)
        if changes is not None:
            changes.make_room(arrays, chunk)
        executor(plan.forward, plan.graph, shared, arrays, carried, chunk)
        if changes is not None:
            changes.collect(arrays, chunk)
    if changes is not None:
        tensors |= changes.kept() | {f"final{k}": carried[k] for k in plan.forward.changes}
    return tensors, carried


def hoist(plan: Plan, shared: dict[Any, Any], arrays: Arrays, span: Span) -> None:
    """The products of the drive, for all rows of a span at once."""
    if not plan.hoisted:
        return
    found = dict(shared)
    found["rows"] = span.rows.stop - span.rows.start
    for k, value in enumerate(plan.drives):
        found[value] = arrays.rows(f"drive{k}", span)
    _torch.run_nodes(plan.graph, plan.hoisted, found)
    for name, value in plan.hoisted_arrays.items():
        arrays.tensors[name], arrays.base[name] = found[value].contiguous(), span.rows.start


def backward(
    plan: Plan,
    executor: Any,
    grad_output: Tensor | None,
    grad_final: list[Tensor | None],
    arrays: Arrays,
    weights: list[Tensor],
    span: Span,
    needs: list[bool],
) -> list[Tensor | None]:
    """The gradients of each drive, field of the start and weight; None where none is needed or there is none.

    Args:
        arrays: what :func:`forward` returned, and the drives.
        needs: which drives, fields and weights.
    """
    loop, graph, values = plan.gradient_loop, plan.graph, plan.graph.values
    shared, reference = weights_of(plan, weights), arrays.start[0]
    if any(source.array == "grad" for source in loop.reads.values()):
        if grad_output is None:
            grad_output = torch.zeros_like(arrays.tensors["output"])
        arrays.tensors["grad"] = grad_output
    carried = _arriving(plan, grad_final, arrays)
    count = len(plan.drives)
    drive_gradients = [
        new_array(plan, drive, span.first[-1], reference) if needs[k] and plan.gradients[k] is not None else None
        for k, drive in enumerate(plan.drives)
    ]
    weights_wanted = any(needs[count + len(plan.states) :])
    sums = {
        row_sum.result: torch.zeros(row_sum.shape, dtype=values[row_sum.result].dtype, device=reference.device)
        for row_sum in plan.row_sums
    }
    outputs = loop_outputs(plan, [plan.gradients[k] for k in range(count) if needs[k]], weights_wanted)
    widths = [*(plan.hoisted_arrays.values() if plan.hoist_again else ()), *outputs.values()]
    start_rebuilding(plan, arrays)
    for chunk in span.chunks(width_of(plan, widths) + record_bytes(plan), _bytes(executor), backwards=True):
        rows = chunk.rows.stop - chunk.rows.start
        if plan.hoist_again:
            hoist(plan, shared, arrays, chunk)
        for name, value in outputs.items():
            arrays.tensors[name] = new_array(plan, value, rows, reference)
            arrays.base[name] = chunk.rows.start
        restore_slots(plan, arrays, chunk)
        executor(loop, graph, shared, arrays, carried, chunk)
        found = RowValues(plan, shared, arrays, chunk)
        for k, gradient in enumerate(drive_gradients):
            if gradient is not None:
                gradient[chunk.rows] = found[plan.gradients[k]]
        if weights_wanted:
            for row_sum in plan.row_sums:
                found.add(sums[row_sum.result], row_sum)
    found_after: dict[Any, Any] = shared | sums
    if weights_wanted:
        _torch.run_nodes(graph, plan.after, found_after)
    fields = iter(carried)
    result: list[Tensor | None] = list(drive_gradients)
    arriving = {a for a, _ in loop.carried}
    for k, gradient_of in enumerate(plan.gradients[count:], start=count):
        if k < count + len(plan.states):
            grad = next(fields) if plan.arriving[k - count] in arriving else None
        else:
            grad = None if gradient_of is None or not needs[k] else found_after[gradient_of]
        result.append(grad if needs[k] else None)
    return result


def loop_outputs(plan: Plan, drives: list[int | None], weights: bool) -> dict[str, int]:
    """The arrays that the backward loop must fill for the gradients of these drives, and of the weights if asked."""
    wanted = {value for value in drives if value is not None}
    if weights:
        wanted.update(a for row_sum in plan.row_sums for a in (row_sum.left, row_sum.right) if a is not None)
    wanted.update(a for node in used(plan.outgoing, wanted) for a in node.args)
    return {name: value for name, value in plan.gradient_loop.writes.items() if value in wanted}


def _arriving(plan: Plan, grad_final: list[Tensor | None], arrays: Arrays) -> list[Tensor]:
    order = {value: k for k, value in enumerate(plan.arriving)}
    found = []
    for value, _ in plan.gradient_loop.carried:
        k = order[value]
        given = grad_final[k]
        found.append(torch.zeros_like(arrays.start[k]) if given is None else given.clone())
    return found


class RowValues(dict[Any, Any]):
    """Row values of a chunk, looked up where they lie or computed when they are first asked for."""

    def __init__(self, plan: Plan, shared: dict[Any, Any], arrays: Arrays, span: Span) -> None:
        super().__init__(shared)
        self["rows"] = span.rows.stop - span.rows.start
        self.plan, self.arrays, self.span = plan, arrays, span
        self.makers = {node.result: node for node in plan.outgoing}

    def __missing__(self, value: int) -> Any:
        source: Source | None = self.plan.sources.get(value)
        if source is None:
            node = self.makers[value]
            for a in node.args:
                self[a]
            _torch.run_nodes(self.plan.graph, [node], self)
            return self[value]
        if source.before is None:
            self[value] = self.arrays.rows(source.array, self.span)
        else:
            self[value] = torch.cat([rows for _, rows in self.arrays.all_before(source, self.span)])
        return self[value]

    def add(self, total: Tensor, row_sum: RowSum) -> None:
        """Add the sum over the rows of this chunk to the total."""
        if row_sum.right is None:
            left = self[row_sum.left]
            total += column_sums(left.reshape(len(left), -1)).view(total.shape)
            return
        sides = [self._parts(row_sum.left), self._parts(row_sum.right)]
        cuts = max(sides, key=len)
        for k, (where, _) in enumerate(cuts):
            a, b = (side[k][1] if len(side) == len(cuts) else side[0][1][where] for side in sides)
            a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
            matmul(a.t(), b, total.view(a.shape[1], b.shape[1]), add=True)

    def _parts(self, value: int) -> list[tuple[slice, Tensor]]:
        """A value of all rows, or in parts: those of the state before lie in two places."""
        source = self.plan.sources.get(value)
        if source is not None and source.before is not None and value not in self:
            return self.arrays.all_before(source, self.span)
        return [(slice(0, self["rows"]), self[value])]


def _bytes(executor: Any) -> int:
    return TORCH_CHUNK_BYTES if executor is _torch.run else CHUNK_BYTES


def width_of(plan: Plan, values: Any) -> int:
    """Bytes per row of some values."""
    return sum(plan.graph.values[v].size * plan.graph.values[v].dtype.itemsize for v in values)
