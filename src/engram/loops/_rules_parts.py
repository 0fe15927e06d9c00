"""Rules of operations that take parts of a row, or join them."""

from typing import Any

import torch

from engram.loops._lowering import Lowering, Place
from engram.loops._rules import place_of, rule
from engram.loops._trace import Call

aten = torch.ops.aten


@rule(aten.slice.Tensor)
def slice_(w: Lowering, call: Call) -> None:
    source, axis, first, last, step = _defaults(call.args, (0, 0, 0, None, 1))
    size = w.shape(source.number)[axis % len(w.shape(source.number))]
    first, last, step = slice(first, last, step).indices(size)
    place = place_of(w, source.number)
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
    place = place_of(w, n)
    size = w.shape(n)[axis % len(w.shape(n))]
    first, last, step = slice(first, last, step).indices(size)
    if axis % len(w.shape(n)) == place.axis and (first, last, step) == (0, size, 1):
        w.known[n] = w.known[grad.number]
        return
    w.known[n] = _padded(w, n, w.known[grad.number], w.axis(n, axis), first, last, step)


def _padded(w: Lowering, n: int, value: int, axis: int, first: int, last: int, step: int) -> int:
    shape = place_of(w, n).row(w.shape(n))
    if (first, last, step) == (0, shape[axis], 1):
        return value
    return w.graph.add("pad", (value,), shape, w.dtype(n), (axis, first, last, step), w.line)


@rule(aten.select_backward.default)
def select_backward(w: Lowering, call: Call) -> None:
    n, (grad, _, axis, index) = call.results[0], call.args
    axis = w.axis(n, axis)
    shape = place_of(w, n).row(w.shape(n))
    index %= shape[axis]
    one = w.reshape(w.known[grad.number], (*shape[:axis], 1, *shape[axis + 1 :]))
    w.known[n] = _padded(w, n, one, axis, index, index + 1, 1)


@rule(aten.cat.default, aten.stack.default)
def cat(w: Lowering, call: Call) -> None:
    n, axis = call.results[0], call.args[1] if len(call.args) > 1 else 0
    place, rank = place_of(w, n), len(w.shape(n))
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
        raise w.error("rows of the batch are mixed")
    value = w.known[source]
    for shift, axis in zip(shifts, axes, strict=True):
        axis = w.axis(source, axis)
        size = w.graph.values[value].shape[axis]
        cut = -shift % size
        if cut:
            value = joined(w, [w.slice(value, axis, cut, size), w.slice(value, axis, 0, cut)], axis)
    w.known[call.results[0]] = value
