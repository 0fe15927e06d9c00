"""Rules of products: of rows with a weight, per row, and those of the gradient, which add up rows."""

from typing import Any

import torch

from engram.loops._graph import Node
from engram.loops._lowering import Lowering
from engram.loops._rules import permuted, place_of, rule
from engram.loops._trace import Call, Ref

aten = torch.ops.aten


@rule(aten.mm.default)
def mm(w: Lowering, call: Call) -> None:
    a, b = (ref.number for ref in call.args)
    _multiply(w, call.results[0], a, b)


@rule(aten.mv.default)
def mv(w: Lowering, call: Call) -> None:
    """x @ v, a number for each row. In a gradient x.mT @ g, the sum of all rows, each times its number."""
    n, (a, b) = call.results[0], (ref.number for ref in call.args)
    left, right = w.place(a), w.place(b)
    if left and not right and left.axis == 0 and left.fold == 1:
        w.known[n] = w.reduce("sum", w.op(aten.mul.Tensor, Ref(w.known[a]), Ref(w.known[b])), (0,), keep=False)
    elif left and right and left.axis == 1 and left.fold == 1:
        number = w.reshape(w.known[b], (1,))
        w.sum_rows(n, w.op(aten.mul.Tensor, Ref(w.known[a]), Ref(number)))
    else:
        raise w.error("rows of the batch are mixed")


@rule(aten.addmm.default)
def addmm(w: Lowering, call: Call) -> None:
    n, (bias, a, b) = call.results[0], (ref.number for ref in call.args)
    if any(value != 1 for value in call.kwargs.values()):
        raise w.error("addmm with alpha or beta is not known")
    _multiply(w, n, a, b)
    place = place_of(w, n)
    added = w.aligned(bias, 2, place)
    w.known[n] = w.op(aten.add.Tensor, Ref(w.known[n]), Ref(added))


def _multiply(w: Lowering, n: int, a: int, b: int) -> None:
    left, right = w.place(a), w.place(b)
    if left and right:
        if (left.axis, right.axis) != (1, 0):
            raise w.error("rows of the batch are mixed")
        first = w.known[a] if left.fold == 1 else permuted(w, w.known[a], (1, 0))
        w.sum_rows(n, first, w.known[b])
    elif left and left.axis == 0:
        w.known[n] = product(w, w.known[a], w.known[b])
    elif right and right.axis == 1 and right.fold == 1:
        w.known[n] = product(w, w.known[b], _transposed(w, w.known[a]))
    else:
        raise w.error("rows of the batch are mixed")


def product(w: Lowering, rows: int, matrix: int) -> int:
    was, by = w.graph.values[rows], w.graph.values[matrix]
    return w.graph.add("product", (rows, matrix), (*was.shape[:-1], by.shape[1]), was.dtype, None, w.line)


def shared_call(w: Lowering, function: Any, value: int, *args: Any) -> int:
    """One more operation on a shared value."""
    was = w.graph.values[value]
    shape = tuple(function(torch.empty(1, dtype=was.dtype).expand(was.shape), *args).shape)
    result = w.graph.value(shape, was.dtype, False)
    w.graph.nodes.append(Node("shared", (value,), (result,), (function, (Ref(value), *args), {}), w.line))
    return result


def _transposed(w: Lowering, value: int) -> int:
    return shared_call(w, aten.t.default, value)


@rule(aten.bmm.default)
def bmm(w: Lowering, call: Call) -> None:
    n, (a, b) = call.results[0], (ref.number for ref in call.args)
    left, right = w.place(a), w.place(b)
    many, first, second = w.shape(a)[0], w.known[a], w.known[b]
    if left and right and left.axis == right.axis == 0:
        w.known[n] = inner(w, first, second)
    elif left and right and (left.axis, right.axis) == (2, 1) and left.fold == right.fold == 1:
        if many == 1:
            w.sum_rows(n, first, second)
        else:
            x, y = w.graph.values[first].shape, w.graph.values[second].shape
            w.sum_rows(n, inner(w, w.reshape(first, (*x, 1)), w.reshape(second, (y[0], 1, y[1]))))
    elif left and not right and left.axis == 1 and left.fold == 1:
        if many == 1:
            w.known[n] = product(w, first, shared_call(w, aten.select.int, second, 0, 0))
        else:
            x = w.graph.values[first].shape
            found = inner(w, w.reshape(first, (x[0], 1, x[1])), second)
            w.known[n] = w.reshape(found, (x[0], w.shape(n)[2]))
    else:
        raise w.error("rows of the batch are mixed")


def inner(w: Lowering, a: int, b: int) -> int:
    x, y = w.graph.values[a], w.graph.values[b]
    if x.shape[-1] == 1 and x.shape[:-2] == y.shape[:-2]:  # an outer product: number by number, with its neighbours
        return w.op(aten.mul.Tensor, Ref(a), Ref(b))
    return w.graph.add("inner", (a, b), (*x.shape[:-1], y.shape[-1]), x.dtype, None, w.line)
