"""How each torch operation looks on one row: one rule per operation, found by :data:`RULES`.

Operations that torch itself tags as pointwise need no rule. What has none is refused, and named.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from engram.loops._graph import Node
from engram.loops._lowering import Lowering, Place
from engram.loops._trace import Call, Ref

aten = torch.ops.aten
Rule = Callable[[Lowering, Call], None]
RULES: dict[Any, Rule] = {}


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(functions, function))
        return function

    return register


UNTAGGED = {
    aten.leaky_relu_backward.default,
    aten.elu_backward.default,
    aten.hardtanh_backward.default,
    aten.hardsigmoid_backward.default,
    aten.hardswish_backward.default,
    aten.mish_backward.default,
    aten.softshrink_backward.default,
    aten.hardshrink_backward.default,
    aten.softplus_backward.default,
    aten.hardswish.default,
    aten.masked_fill.Tensor,
}
"""Pointwise operations to which torch gives no tag."""


def is_pointwise(function: Any) -> bool:
    return torch.Tag.pointwise in function.tags or function in UNTAGGED


def shared(w: Lowering, call: Call) -> None:
    """An operation on shared values: kept as it is, and run by torch before or after the loop."""
    results = []
    for n in call.results:
        tensor = w.small.tensors[n]
        w.known[n] = w.graph.value(tuple(tensor.shape), tensor.dtype, False)
        results.append(w.known[n])

    def values(item: Any) -> Any:
        if isinstance(item, Ref):
            return Ref(w.known[item.number])
        if isinstance(item, (tuple, list)):
            return tuple(values(part) for part in item)
        return {key: values(part) for key, part in item.items()} if isinstance(item, dict) else item

    args = tuple(w.known[n] for n in _numbers((call.args, call.kwargs)))
    info = (call.function, values(call.args), values(call.kwargs))
    w.graph.nodes.append(Node("shared", args, tuple(results), info, call.line))


def _numbers(item: Any) -> list[int]:
    if isinstance(item, Ref):
        return [item.number]
    if isinstance(item, dict):
        item = list(item.values())
    return [n for part in item for n in _numbers(part)] if isinstance(item, (tuple, list)) else []


def pointwise(w: Lowering, call: Call) -> None:
    """Operands get the rank they have beside the result."""
    (n,) = call.results
    place = w.place(n)
    if place is None:
        raise w.error("rows of the batch are mixed")
    rank, numbers = len(w.shape(n)), []

    def operand(item: Any) -> Any:
        if isinstance(item, Ref):
            value = w.aligned(item.number, rank, place)
            numbers.append(value)
            return Ref(value)
        return item

    args = tuple(operand(item) for item in call.args)
    kwargs = {key: operand(item) for key, item in call.kwargs.items()}
    shape, info = place.row(w.shape(n)), (call.function, args, kwargs)
    if call.function is aten.add.Tensor and not kwargs and (found := _onto(w, numbers, shape)) is not None:
        w.known[n] = found
        return
    w.known[n] = w.graph.add("pointwise", tuple(numbers), shape, w.dtype(n), info, w.line)


def _onto(w: Lowering, numbers: list[int], shape: tuple[int, ...]) -> int | None:
    """A value plus zeros to which one slot was added: the slot is added to the value itself, and nothing else moves."""
    values = w.graph.values
    if len(numbers) != 2 or any(values[a].shape != shape or not values[a].rows for a in numbers):
        return None
    for base, other in (numbers, numbers[::-1]):
        maker = w.maker(other)
        if maker is None or maker.kind != "scatter_add" or values[maker.args[1]].shape[maker.info] != 1:
            continue
        zeros = w.maker(maker.args[0])
        if zeros is not None and zeros.kind == "fill" and zeros.info == 0 and values[base].dtype == values[other].dtype:
            return w.graph.add("scatter_add", (base, *maker.args[1:]), shape, values[other].dtype, maker.info, w.line)
    return None


for untagged in (aten._conj, aten.conj_physical, aten.resolve_conj, aten._neg_view, aten.resolve_neg, aten.complex):
    RULES[untagged.default] = pointwise


@rule(
    aten.detach.default, aten.alias.default, aten.clone.default, aten.lift_fresh.default, aten.lift_fresh_copy.default
)
def same(w: Lowering, call: Call) -> None:
    w.known[call.results[0]] = w.known[call.args[0].number]


@rule(aten._conj.default, aten._neg_view.default)
def lazy(w: Lowering, call: Call) -> None:
    """What torch puts off till the numbers are read is done at once."""
    function = aten.conj_physical.default if call.function is aten._conj.default else aten.neg.default
    w.known[call.results[0]] = w.op(function, Ref(w.known[call.args[0].number]))


@rule(aten._to_copy.default)
def cast(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    value = w.value(source)
    if value.dtype == w.dtype(n):
        w.known[n] = w.known[source]
        return
    info = (aten._to_copy.default, (Ref(w.known[source]),), {"dtype": w.dtype(n)})
    w.known[n] = w.graph.add("pointwise", (w.known[source],), value.shape, w.dtype(n), info, w.line)


@rule(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
)
def reshape(w: Lowering, call: Call) -> None:
    """Rows stay rows if as many numbers lie before the batch as did."""
    n, source = call.results[0], call.args[0].number
    before, after = place_of(w, source), place_of(w, n)
    if prod(w.shape(source)[: before.axis]) != prod(w.shape(n)[: after.axis]):
        raise w.error("rows of the batch are mixed")
    w.known[n] = w.reshape(w.known[source], after.row(w.shape(n)))


def place_of(w: Lowering, n: int) -> Place:
    place = w.place(n)
    if place is None:
        raise w.error("rows of the batch are mixed")
    return place


@rule(aten.t.default, aten.transpose.int, aten.permute.default)
def permute(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    rank, place = len(w.shape(source)), place_of(w, source)
    order = list(range(rank))
    if call.function is aten.permute.default:
        order = [d % rank for d in call.args[1]]
    elif rank > 1:
        a, b = (0, 1) if call.function is aten.t.default else (d % rank for d in call.args[1:])
        order[a], order[b] = order[b], order[a]
    row_axes = [d if (d <= place.axis and place.fold > 1) or d < place.axis else d - (place.fold == 1) for d in order]
    axes = tuple(a for a, d in zip(row_axes, order, strict=True) if place.fold > 1 or d != place.axis)
    w.known[n] = permuted(w, w.known[source], axes)


def permuted(w: Lowering, value: int, axes: tuple[int, ...]) -> int:
    was = w.graph.values[value]
    if axes == tuple(range(len(axes))):
        return value
    return w.graph.add("permute", (value,), tuple(was.shape[a] for a in axes), was.dtype, axes, w.line)


@rule(aten.expand.default)
def expand(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    place = place_of(w, n)
    value = w.aligned(source, len(w.shape(n)), place)
    shape, was = place.row(w.shape(n)), w.graph.values[value]
    if was.shape == shape and was.rows:
        w.known[n] = value
    else:
        value = w.reshape(value, (1,) * (len(shape) - len(was.shape)) + was.shape)
        w.known[n] = w.graph.add("expand", (value,), shape, was.dtype, shape, w.line)


@rule(
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
    aten.zeros.default,
    aten.ones.default,
    aten.full.default,
    aten.scalar_tensor.default,
)
def fill(w: Lowering, call: Call) -> None:
    n, name = call.results[0], str(call.function)
    number = call.args[-1] if "full" in name else 1 if "ones" in name else 0
    place = w.place(n)
    if place is None:
        shared(w, call)
        return
    w.known[n] = w.graph.add("fill", (), place.row(w.shape(n)), w.dtype(n), number, w.line)
