"""How each torch operation looks on one row: one rule per operation, found by :data:`RULES`.

Operations that torch itself tags as pointwise need no rule. What has none is refused, and named.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from engram.loops._graph import Node
from engram.loops._lower import Lowering, Place
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
        raise w.error("rows of the batch meet")
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
    w.known[n] = w.graph.add("pointwise", tuple(numbers), shape, w.dtype(n), info, w.line)


for untagged in (aten._conj, aten.conj_physical, aten.resolve_conj, aten._neg_view, aten.resolve_neg, aten.complex):
    RULES[untagged.default] = pointwise


# The same numbers.


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
    before, after = _place(w, source), _place(w, n)
    if prod(w.shape(source)[: before.axis]) != prod(w.shape(n)[: after.axis]):
        raise w.error("rows of the batch meet")
    w.known[n] = w.reshape(w.known[source], after.row(w.shape(n)))


def _place(w: Lowering, n: int) -> Place:
    place = w.place(n)
    if place is None:
        raise w.error("rows of the batch meet")
    return place


@rule(aten.t.default, aten.transpose.int, aten.permute.default)
def permute(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    rank, place = len(w.shape(source)), _place(w, source)
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
    place = _place(w, n)
    value = w.aligned(source, len(w.shape(n)), place)
    shape, was = place.row(w.shape(n)), w.graph.values[value]
    if was.shape == shape and was.rows:
        w.known[n] = value
    else:
        value = w.reshape(value, (1,) * (len(shape) - len(was.shape)) + was.shape)
        w.known[n] = w.graph.add("expand", (value,), shape, was.dtype, shape, w.line)


# Parts of a row.


@rule(aten.slice.Tensor)
def slice_(w: Lowering, call: Call) -> None:
    source, axis, first, last, step = _defaults(call.args, (0, 0, 0, None, 1))
    size = w.shape(source.number)[axis % len(w.shape(source.number))]
    first, last, step = slice(first, last, step).indices(size)
    place = _place(w, source.number)
    if axis % len(w.shape(source.number)) == place.axis and (first, last, step) == (0, size, 1):
        w.known[call.results[0]] = w.known[source.number]
        return
    w.known[call.results[0]] = w.slice(w.known[source.number], w.axis(source.number, axis), first, last, step)


def _defaults(args: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*args, *values[len(args) :])


@rule(aten.select.int)
def select(w: Lowering, call: Call) -> None:
    source, axis, index = call.args
    axis, value = w.axis(source.number, axis), w.known[source.number]
    index %= w.graph.values[value].shape[axis]
    w.known[call.results[0]] = _one(w, value, axis, index)


def _one(w: Lowering, value: int, axis: int, index: int) -> int:
    part = w.slice(value, axis, index, index + 1)
    shape = w.graph.values[part].shape
    return w.reshape(part, (*shape[:axis], *shape[axis + 1 :]))


@rule(aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int)
def split(w: Lowering, call: Call) -> None:
    source = call.args[0].number
    if call.function is aten.unbind.int:
        axis = w.axis(source, call.args[1] if len(call.args) > 1 else 0)
        for k, n in enumerate(call.results):
            w.known[n] = _one(w, w.known[source], axis, k)
        return
    axis, first = w.axis(source, call.args[2] if len(call.args) > 2 else 0), 0
    physical = (call.args[2] if len(call.args) > 2 else 0) % len(w.shape(source))
    for n in call.results:
        size = w.shape(n)[physical]
        w.known[n] = w.slice(w.known[source], axis, first, first + size)
        first += size


@rule(aten.slice_backward.default)
def pad(w: Lowering, call: Call) -> None:
    n, (grad, _, axis, first, last, step) = call.results[0], call.args
    place = _place(w, n)
    size = w.shape(n)[axis % len(w.shape(n))]
    first, last, step = slice(first, last, step).indices(size)
    if axis % len(w.shape(n)) == place.axis and (first, last, step) == (0, size, 1):
        w.known[n] = w.known[grad.number]
        return
    w.known[n] = _padded(w, n, w.known[grad.number], w.axis(n, axis), first, last, step)


def _padded(w: Lowering, n: int, value: int, axis: int, first: int, last: int, step: int) -> int:
    shape = _place(w, n).row(w.shape(n))
    if (first, last, step) == (0, shape[axis], 1):
        return value
    return w.graph.add("pad", (value,), shape, w.dtype(n), (axis, first, last, step), w.line)


@rule(aten.select_backward.default)
def select_backward(w: Lowering, call: Call) -> None:
    n, (grad, _, axis, index) = call.results[0], call.args
    axis = w.axis(n, axis)
    shape = _place(w, n).row(w.shape(n))
    index %= shape[axis]
    one = w.reshape(w.known[grad.number], (*shape[:axis], 1, *shape[axis + 1 :]))
    w.known[n] = _padded(w, n, one, axis, index, index + 1, 1)


@rule(aten.cat.default, aten.stack.default)
def cat(w: Lowering, call: Call) -> None:
    n, axis = call.results[0], call.args[1] if len(call.args) > 1 else 0
    place, rank = _place(w, n), len(w.shape(n))
    row_axis = w.axis(n, axis)
    pieces = []
    for ref in call.args[0]:
        whole = list(w.shape(ref.number))
        if call.function is aten.stack.default:
            whole.insert(axis % rank, 1)
        pieces.append(_row_piece(w, ref.number, tuple(whole), place))
    w.known[n] = joined(w, pieces, row_axis)


def _row_piece(w: Lowering, n: int, whole: tuple[int, ...], place: Place) -> int:
    """A part of a row; a shared one has the batch as an axis of 1, which cannot be: it would be of another size."""
    if not w.is_rows(n):
        raise w.error("the step joins a part that has a fixed number of rows")
    return w.reshape(w.known[n], place.row(whole))


def joined(w: Lowering, pieces: list[int], axis: int) -> int:
    values = [w.graph.values[p] for p in pieces]
    size = sum(v.shape[axis] for v in values)
    shape = (*values[0].shape[:axis], size, *values[0].shape[axis + 1 :])
    dtype = values[0].dtype
    for v in values[1:]:
        dtype = torch.promote_types(dtype, v.dtype)
    return pieces[0] if len(pieces) == 1 else w.graph.add("cat", tuple(pieces), shape, dtype, axis, w.line)


@rule(aten.roll.default)
def roll(w: Lowering, call: Call) -> None:
    source, shifts = call.args[0].number, call.args[1]
    axes = call.args[2] if len(call.args) > 2 else ()
    if not axes:
        raise w.error("rows of the batch meet")
    value = w.known[source]
    for shift, axis in zip(shifts, axes, strict=True):
        axis = w.axis(source, axis)
        size = w.graph.values[value].shape[axis]
        cut = -shift % size
        if cut:
            value = joined(w, [w.slice(value, axis, cut, size), w.slice(value, axis, 0, cut)], axis)
    w.known[call.results[0]] = value


# Numbers.


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


# Products.


@rule(aten.mm.default)
def mm(w: Lowering, call: Call) -> None:
    a, b = (ref.number for ref in call.args)
    _multiply(w, call.results[0], a, b)


@rule(aten.addmm.default)
def addmm(w: Lowering, call: Call) -> None:
    n, (bias, a, b) = call.results[0], (ref.number for ref in call.args)
    if any(value != 1 for value in call.kwargs.values()):
        raise w.error("addmm with alpha or beta is not known")
    _multiply(w, n, a, b)
    place = _place(w, n)
    added = w.aligned(bias, 2, place)
    w.known[n] = w.op(aten.add.Tensor, Ref(w.known[n]), Ref(added))


def _multiply(w: Lowering, n: int, a: int, b: int) -> None:
    left, right = w.place(a), w.place(b)
    if left and right:
        if (left.axis, right.axis) != (1, 0):
            raise w.error("rows of the batch meet")
        first = w.known[a] if left.fold == 1 else permuted(w, w.known[a], (1, 0))
        w.meet(n, first, w.known[b])
    elif left and left.axis == 0:
        w.known[n] = product(w, w.known[a], w.known[b])
    elif right and right.axis == 1 and right.fold == 1:
        w.known[n] = product(w, w.known[b], _transposed(w, w.known[a]))
    else:
        raise w.error("rows of the batch meet")


def product(w: Lowering, rows: int, matrix: int) -> int:
    was, by = w.graph.values[rows], w.graph.values[matrix]
    return w.graph.add("product", (rows, matrix), (*was.shape[:-1], by.shape[1]), was.dtype, None, w.line)


def _shared_call(w: Lowering, function: Any, value: int, *args: Any) -> int:
    """One more operation on a shared value."""
    was = w.graph.values[value]
    shape = tuple(function(torch.empty(1).expand(was.shape), *args).shape)
    result = w.graph.value(shape, was.dtype, False)
    w.graph.nodes.append(Node("shared", (value,), (result,), (function, (Ref(value), *args), {}), w.line))
    return result


def _transposed(w: Lowering, value: int) -> int:
    return _shared_call(w, aten.t.default, value)


@rule(aten.bmm.default)
def bmm(w: Lowering, call: Call) -> None:
    n, (a, b) = call.results[0], (ref.number for ref in call.args)
    left, right = w.place(a), w.place(b)
    many, first, second = w.shape(a)[0], w.known[a], w.known[b]
    if left and right and left.axis == right.axis == 0:
        w.known[n] = inner(w, first, second)
    elif left and right and (left.axis, right.axis) == (2, 1) and left.fold == right.fold == 1:
        if many == 1:
            w.meet(n, first, second)
        else:
            x, y = w.graph.values[first].shape, w.graph.values[second].shape
            w.meet(n, inner(w, w.reshape(first, (*x, 1)), w.reshape(second, (y[0], 1, y[1]))))
    elif left and not right and left.axis == 1 and left.fold == 1:
        if many == 1:
            w.known[n] = product(w, first, _shared_call(w, aten.select.int, second, 0, 0))
        else:
            x = w.graph.values[first].shape
            found = inner(w, w.reshape(first, (x[0], 1, x[1])), second)
            w.known[n] = w.reshape(found, (x[0], w.shape(n)[2]))
    else:
        raise w.error("rows of the batch meet")


def inner(w: Lowering, a: int, b: int) -> int:
    x, y = w.graph.values[a], w.graph.values[b]
    return w.graph.add("inner", (a, b), (*x.shape[:-1], y.shape[-1]), x.dtype, None, w.line)


# Reductions.


@rule(aten.sum.dim_IntList, aten.sum.default)
def sum_(w: Lowering, call: Call) -> None:
    n, source = call.results[0], call.args[0].number
    axes = call.args[1] if len(call.args) > 1 and call.args[1] else tuple(range(len(w.shape(source))))
    keep, rank = bool(call.args[2]) if len(call.args) > 2 else False, len(w.shape(source))
    place = _place(w, source)
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
    w.meet(n, w.reduce("sum", value, row_axes, keep=False))


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
        raise w.error("rows of the batch meet")
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


# Choosing.


@rule(aten.gather.default)
def gather(w: Lowering, call: Call) -> None:
    n, (source, axis, index) = call.results[0], call.args[:3]
    axis = w.axis(source.number, axis)
    if w.place(index.number) != w.place(source.number):
        raise w.error("rows of the batch meet")
    args, shape = (w.known[source.number], w.known[index.number]), w.value(index.number).shape
    w.known[n] = w.graph.add("gather", args, shape, w.dtype(n), axis, w.line)


@rule(aten.scatter_add.default)
def scatter_add(w: Lowering, call: Call) -> None:
    n, (base, axis, index, source) = call.results[0], call.args
    if not {w.place(base.number), w.place(index.number), w.place(source.number)} == {Place(0, 1)}:
        raise w.error("rows of the batch meet")
    args = (w.known[base.number], w.known[index.number], w.known[source.number])
    shape, axis = w.value(base.number).shape, w.axis(base.number, axis)
    w.known[n] = w.graph.add("scatter_add", args, shape, w.dtype(n), axis, w.line)


@rule(aten.scatter.src)
def scatter(w: Lowering, call: Call) -> None:
    """The gradient of a largest (smallest) number: one place per line of zeros, so that adding is setting."""
    base, axis, index, _ = call.args
    made = next((node for node in w.graph.nodes if w.known[base.number] in node.results), None)
    zeros = made is not None and made.kind == "fill" and made.info == 0
    if not zeros or w.shape(index.number)[axis % len(w.shape(index.number))] != 1:
        raise w.error("scatter is known for one place in zeros; use torch.where")
    scatter_add(w, call)


@rule(aten.index.Tensor, aten.index_put.default)
def index(w: Lowering, call: Call) -> None:
    """``h[:, numbers]``, with the same numbers for every row, and its gradient."""
    n, source, where = call.results[0], call.args[0].number, call.args[1]
    given = [(axis, ref) for axis, ref in enumerate(where) if ref is not None]
    if len(given) != 1 or w.is_rows(given[0][1].number) or len(w.shape(given[0][1].number)) != 1:
        raise w.error("an index with tensors is known for one axis and the same numbers in every row; use torch.gather")
    axis, numbers = w.axis(source, given[0][0]), w.known[given[0][1].number]
    shape = w.value(source).shape
    picked = (*shape[:axis], w.graph.values[numbers].shape[0], *shape[axis + 1 :])
    places = w.reshape(numbers, tuple(-1 if d == axis else 1 for d in range(len(shape))))
    flat = w.graph.values[numbers].shape[0]
    places = w.reshape(numbers, tuple(flat if d == axis else 1 for d in range(len(shape))))
    places = w.graph.add("expand", (places,), picked, torch.int64, picked, w.line)
    if call.function is aten.index.Tensor:
        w.known[n] = w.graph.add("gather", (w.known[source], places), picked, w.dtype(n), axis, w.line)
        return
    accumulate = call.args[3] if len(call.args) > 3 else False
    if not accumulate:
        raise w.error("an index may be read, not written; use torch.where")
    base, added = w.known[source], w.reshape(w.known[call.args[2].number], picked)
    w.known[n] = w.graph.add("scatter_add", (base, places, added), shape, w.dtype(n), axis, w.line)


ROWWISE = (
    aten.cumsum.default,
    aten.cumprod.default,
    aten.flip.default,
    aten.logsumexp.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.real.default if hasattr(aten.real, "default") else aten.view_as_real.default,
)


@rule(*ROWWISE)
def rowwise(w: Lowering, call: Call) -> None:
    """torch's operation as it is, on rows that lie along the first axis."""
    n, source = call.results[0], call.args[0].number
    if w.place(source) != Place(0, 1) or w.place(n) != Place(0, 1):
        raise w.error("rows of the batch meet")
    dims = call.args[1] if len(call.args) > 1 else ()
    for d in dims if isinstance(dims, (tuple, list)) else (dims,):
        w.axis(source, d)
    dims = [d % len(w.shape(source)) for d in dims] if isinstance(dims, (tuple, list)) else dims % len(w.shape(source))
    rest = (dims, *call.args[2:]) if len(call.args) > 1 else ()
    info = (call.function, (Ref(w.known[source]), *rest), call.kwargs)
    shape = w.shape(n)[1:]
    w.known[n] = w.graph.add("rowwise", (w.known[source],), shape, w.dtype(n), info, w.line)
