"""Softmax, layer normalisation and norms, in terms of simpler nodes: what the loop in C then knows how to do."""

from math import prod

import torch

from engram.loops._lowering import Lowering
from engram.loops._rules import rule
from engram.loops._rules_sums import average
from engram.loops._trace import Call, Ref

aten = torch.ops.aten


@rule(aten._softmax.default, aten._log_softmax.default)
def softmax(w: Lowering, call: Call) -> None:
    source = call.args[0].number
    axis, x = (w.axis(source, call.args[1]),), w.known[source]
    centred = w.op(aten.sub.Tensor, Ref(x), Ref(w.reduce("amax", x, axis, keep=True)))
    powers = w.op(aten.exp.default, Ref(centred))
    total = w.reduce("sum", powers, axis, keep=True)
    if call.function is aten._softmax.default:
        w.known[call.results[0]] = w.op(aten.div.Tensor, Ref(powers), Ref(total))
    else:
        w.known[call.results[0]] = w.op(aten.sub.Tensor, Ref(centred), Ref(w.op(aten.log.default, Ref(total))))


@rule(aten._softmax_backward_data.default)
def softmax_backward(w: Lowering, call: Call) -> None:
    """y (g - sum g y)."""
    (grad, result), axis = call.args[:2], (w.axis(call.args[1].number, call.args[2]),)
    g, y = w.known[grad.number], w.known[result.number]
    both = w.op(aten.mul.Tensor, Ref(g), Ref(y))
    total = w.reduce("sum", both, axis, keep=True)
    w.known[call.results[0]] = w.op(aten.sub.Tensor, Ref(both), Ref(w.op(aten.mul.Tensor, Ref(y), Ref(total))))


@rule(aten._log_softmax_backward_data.default)
def log_softmax_backward(w: Lowering, call: Call) -> None:
    """g - exp(y) sum g."""
    (grad, result), axis = call.args[:2], (w.axis(call.args[1].number, call.args[2]),)
    g, y = w.known[grad.number], w.known[result.number]
    powers, total = w.op(aten.exp.default, Ref(y)), w.reduce("sum", g, axis, keep=True)
    w.known[call.results[0]] = w.op(aten.sub.Tensor, Ref(g), Ref(w.op(aten.mul.Tensor, Ref(powers), Ref(total))))


@rule(aten.native_layer_norm.default)
def layer_norm(w: Lowering, call: Call) -> None:
    """(x - mean) / sqrt(variance + eps), times weight, plus bias; also the mean and 1 / sqrt."""
    source, shape, weight, bias, eps = call.args
    x = w.known[source.number]
    axes = _last_axes(w, x, shape)
    centred = w.op(aten.sub.Tensor, Ref(x), Ref(mean := average(w, x, axes, keep=True)))
    variance = average(w, w.op(aten.mul.Tensor, Ref(centred), Ref(centred)), axes, keep=True)
    scale = w.op(aten.rsqrt.default, Ref(w.op(aten.add.Tensor, Ref(variance), eps)))
    found = w.op(aten.mul.Tensor, Ref(centred), Ref(scale))
    if weight is not None:
        found = w.op(aten.mul.Tensor, Ref(found), Ref(w.known[weight.number]))
    if bias is not None:
        found = w.op(aten.add.Tensor, Ref(found), Ref(w.known[bias.number]))
    for n, value in zip(call.results, (found, mean, scale), strict=True):
        w.known[n] = value


def _last_axes(w: Lowering, value: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(w.graph.values[value].shape)
    if len(shape) > rank:
        raise w.error("rows of the batch are mixed")
    return tuple(range(rank - len(shape), rank))


@rule(aten.native_layer_norm_backward.default)
def layer_norm_backward(w: Lowering, call: Call) -> None:
    """dx = scale (gw - mean(gw) - x' mean(gw x')), where gw = g weight and x' the normalised x."""
    grad, source, shape, mean, scale, weight, bias, wanted = call.args
    g, x = w.known[grad.number], w.known[source.number]
    axes = _last_axes(w, x, shape)
    centred = w.op(aten.sub.Tensor, Ref(x), Ref(w.known[mean.number]))
    normal = w.op(aten.mul.Tensor, Ref(centred), Ref(w.known[scale.number]))
    to_input, to_weight, to_bias = call.results
    if wanted[0]:
        gw = g if weight is None else w.op(aten.mul.Tensor, Ref(g), Ref(w.known[weight.number]))
        level = average(w, gw, axes, keep=True)
        slope = average(w, w.op(aten.mul.Tensor, Ref(gw), Ref(normal)), axes, keep=True)
        rest = w.op(aten.sub.Tensor, Ref(gw), Ref(level))
        rest = w.op(aten.sub.Tensor, Ref(rest), Ref(w.op(aten.mul.Tensor, Ref(normal), Ref(slope))))
        w.known[to_input] = w.op(aten.mul.Tensor, Ref(rest), Ref(w.known[scale.number]))
    before = tuple(range(len(w.graph.values[x].shape) - len(shape)))
    if wanted[1] and weight is not None:
        w.sum_rows(to_weight, w.reduce("sum", w.op(aten.mul.Tensor, Ref(g), Ref(normal)), before, keep=False))
    if wanted[2] and bias is not None:
        w.sum_rows(to_bias, w.reduce("sum", g, before, keep=False))


@rule(aten.linalg_vector_norm.default)
def vector_norm(w: Lowering, call: Call) -> None:
    source, order, axes, keep = (*call.args, *(None, 2, None, False)[len(call.args) :])[:4]
    if axes is None or order not in (1, 2):
        raise w.error("a norm is known for order 1 or 2, along given axes")
    x, rows = w.known[source.number], tuple(w.axis(source.number, a) for a in axes)
    if order == 1:
        w.known[call.results[0]] = w.reduce("sum", w.op(aten.abs.default, Ref(x)), rows, keep)
        return
    squares = w.op(aten.mul.Tensor, Ref(x), Ref(x))
    w.known[call.results[0]] = w.op(aten.sqrt.default, Ref(w.reduce("sum", squares, rows, keep)))


@rule(aten.var.correction)
def variance(w: Lowering, call: Call) -> None:
    source, axes = call.args[0], call.args[1]
    x, rows = w.known[source.number], tuple(w.axis(source.number, a) for a in axes)
    keep, correction = bool(call.kwargs.get("keepdim", False)), call.kwargs.get("correction", 1)
    centred = w.op(aten.sub.Tensor, Ref(x), Ref(average(w, x, rows, keep=True)))
    total = w.reduce("sum", w.op(aten.mul.Tensor, Ref(centred), Ref(centred)), rows, keep)
    count = prod(w.graph.values[x].shape[a] for a in rows) - (1 if correction is None else correction)
    w.known[call.results[0]] = w.op(aten.div.Tensor, Ref(total), count)


@rule(aten.log_sigmoid_forward.default)
def log_sigmoid(w: Lowering, call: Call) -> None:
    """min(x, 0) - log(1 + exp(-|x|)); the second result is a help for torch's own gradient."""
    x = w.known[call.args[0].number]
    powers = w.op(aten.exp.default, Ref(w.op(aten.neg.default, Ref(w.op(aten.abs.default, Ref(x))))))
    below = w.op(aten.clamp_max.default, Ref(x), 0)
    found = w.op(aten.sub.Tensor, Ref(below), Ref(w.op(aten.log1p.default, Ref(powers))))
    for n in call.results:
        w.known[n] = found


@rule(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(w: Lowering, call: Call) -> None:
    """g sigmoid(-x)."""
    g, x = (w.known[ref.number] for ref in call.args[:2])
    slope = w.op(aten.sigmoid.default, Ref(w.op(aten.neg.default, Ref(x))))
    w.known[call.results[0]] = w.op(aten.mul.Tensor, Ref(g), Ref(slope))
