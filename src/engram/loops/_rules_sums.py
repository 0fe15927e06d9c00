"""Rules of reductions within a row, and of the sums over rows that are gradients."""

from math import prod

import torch

from engram.loops._lowering import Lowering
from engram.loops._rules import place_of, rule
from engram.loops._trace import Call, Ref

aten = torch.ops.aten


@rule(aten.sum.dim_IntList, aten.sum.default)
def sum_(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    axes = call.args[1] if len(call.args) > 1 and call.args[1] else tuple(range(len(w.shape(source))))
    keep, rank = bool(call.args[2]) if len(call.args) > 2 else False, len(w.shape(source))
    place = place_of(w, source)
    axes = [a % rank for a in axes]
    within = [a for a in axes if a != place.axis]
    value = w.known[source]
    if value_dtype := (w.dtype(n) if w.dtype(n) != w.dtype(source) else None):
        value = w.op(aten._to_copy.default, Ref(value), dtype=value_dtype)
    row_axes = tuple(w.axis(source, a) for a in within)
    if place.axis not in axes:
        w.known[n] = w.reduce("sum", value, row_axes, keep)
        return
    if place.fold > 1:
        row_axes = tuple(sorted({*row_axes, place.axis}))
    w.sum_rows(n, w.reduce("sum", value, row_axes, keep=False))


NAMES = {
    aten.amax.default: "amax",
    aten.amin.default: "amin",
    aten.prod.dim_int: "prod",
    aten.any.dim: "any",
    aten.all.dim: "all",
    aten.argmax.default: "argmax",
    aten.argmin.default: "argmin",
}


@rule(*NAMES)
def reduction(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    axes = call.args[1] if len(call.args) > 1 else None
    if axes is None:
        raise w.error("rows of the batch are mixed")
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    keep = bool(call.args[2]) if len(call.args) > 2 else bool(call.kwargs.get("keepdim", False))
    row_axes = tuple(w.axis(source, a) for a in (axes or range(len(w.shape(source)))))
    w.known[n] = w.reduce(NAMES[call.function], w.known[source], row_axes, keep, w.dtype(n))


@rule(aten.max.dim, aten.min.dim)
def extreme(w: Lowering, call: Call) -> None:
    source, axis = call.args[0].number, w.axis(call.args[0].number, call.args[1])
    keep = bool(call.args[2]) if len(call.args) > 2 else False
    names = ("amax", "argmax") if call.function is aten.max.dim else ("amin", "argmin")
    for n, name in zip(call.results, names, strict=True):
        w.known[n] = w.reduce(name, w.known[source], (axis,), keep, w.dtype(n))


@rule(aten.mean.dim)
def mean(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    axes = tuple(w.axis(source, a) for a in call.args[1])
    w.known[n] = average(w, w.known[source], axes, bool(call.args[2]) if len(call.args) > 2 else False)


def average(w: Lowering, value: int, axes: tuple[int, ...], keep: bool) -> int:
    count = prod(w.graph.values[value].shape[a] for a in axes)
    return w.op(aten.div.Tensor, Ref(w.reduce("sum", value, axes, keep)), count)
