"""A program run as torch operations, step by step: any device and dtype, no autograd graph.

:func:`run_nodes` is also what runs outside the loop: there the rows of many steps go through a node at once.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import Graph, Node, fill_in
from engram.loops._layout import Arrays, Span
from engram.loops._plan import Program
from engram.loops._products import Multiplier

aten = torch.ops.aten
Environment = dict[int, Any]
SAFE = {
    aten._conj.default: aten.conj_physical.default,  # our products read memory, where a lazy conjugate is not yet
    aten.view.default: aten.reshape.default,  # a weight may lie in memory in another way than when it was traced
    aten._unsafe_view.default: aten.reshape.default,
}


def run_nodes(graph: Graph, nodes: Iterable[Node], found: Environment) -> None:
    """Add the results of the nodes to ``found``; row values have the rows as their first axis."""
    for node in nodes:
        _function(graph, node)(found)


def run(program: Program, graph: Graph, shared: Environment, arrays: Arrays, carried: list[Tensor], span: Span) -> None:
    """Run a program over a span of steps. Arrays are written in place, and so is the list of carried values."""
    times = dict(shared)
    steps = [_function(graph, node, times) for node in program.nodes]
    own = [(value, source) for value, source in program.reads.items()]
    for t in span.order():
        found = dict(times)
        for value, source in own:
            found[value] = arrays.before(source, t, span) if source.before is not None else arrays.now(source, t, span)
        m = span.alive[t]
        for (value, _), tensor in zip(program.carried, carried, strict=True):
            found[value] = tensor[:m]
        rows = m
        found["rows"] = rows  # type: ignore[index]
        for step in steps:
            step(found)
        for name, value in program.writes.items():
            if name in arrays:
                arrays.write(name, t, span, found[value])
        for k, (_, value) in enumerate(program.carried):
            new = found[value]
            carried[k] = new if m == len(carried[k]) else torch.cat([new, carried[k][m:]])


def _function(graph: Graph, node: Node, shared: Environment | None = None) -> Callable[[Environment], None]:
    """What a node does to the values found so far."""
    result, values = node.results[0], graph.values
    shape = values[result].shape
    match node.kind:
        case "pointwise" | "rowwise":
            function, args, kwargs = node.info
            function = SAFE.get(function, function)
            return _call(result, function, args, kwargs)
        case "shared":
            return _shared(node)
        case "product":
            rows, matrix = node.args
            depth, prepared = values[rows].shape[-1], None
            if shared is not None:
                prepared = shared.setdefault(("times", matrix), Multiplier(shared[matrix]))  # type: ignore[call-overload]

            def product(found: Environment) -> None:
                times = prepared or Multiplier(found[matrix])
                x = found[rows]
                found[result] = times(x.reshape(-1, depth)).view(*x.shape[:-1], shape[-1])

            return product
        case "inner":
            a, b = node.args

            def inner(found: Environment) -> None:
                found[result] = torch.matmul(found[a], found[b])

            return inner
        case "fill":

            def fill(found: Environment) -> None:
                like = next(v for v in found.values() if isinstance(v, Tensor))
                dtype = values[result].dtype
                found[result] = torch.full((found["rows"], *shape), node.info, dtype=dtype, device=like.device)  # type: ignore[index]

            return fill
    return _view(graph, node)


def _call(result: int, function: Any, args: Any, kwargs: Any) -> Callable[[Environment], None]:
    def call(found: Environment) -> None:
        found[result] = function(*fill_in(args, found.__getitem__), **fill_in(kwargs, found.__getitem__))

    return call


def _shared(node: Node) -> Callable[[Environment], None]:
    function, args, kwargs = node.info
    function = SAFE.get(function, function)

    def call(found: Environment) -> None:
        out = function(*fill_in(args, found.__getitem__), **fill_in(kwargs, found.__getitem__))
        found.update(zip(node.results, out if isinstance(out, (tuple, list)) else (out,), strict=True))

    return call


def _view(graph: Graph, node: Node) -> Callable[[Environment], None]:
    """Nodes that move numbers, and reductions."""
    result, args, info, values = node.results[0], node.args, node.info, graph.values
    shape, by_rows = values[result].shape, values[result].rows
    lead = 1 if by_rows else 0

    def view(found: Environment) -> None:
        tensors = [found[a] for a in args]
        x = tensors[0]
        rows = found.get("rows", len(x))  # type: ignore[call-overload]
        match node.kind:
            case "reshape":
                out = x.reshape(rows, *shape) if by_rows else x.reshape(shape)
            case "permute":
                out = x.permute(*range(lead), *(a + lead for a in info))
            case "expand":
                out = x.expand(rows, *shape)
            case "slice":
                axis, first, last, step = info
                out = x[(slice(None),) * (axis + lead) + (slice(first, last, step),)]
            case "pad":
                axis, first, last, step = info
                out = x.new_zeros(rows, *shape)
                out[(slice(None),) * (axis + lead) + (slice(first, last, step),)] = x
            case "cat":
                out = torch.cat(tensors, info + lead)
            case "gather":
                out = torch.gather(x, info + lead, tensors[1].expand(rows, *values[args[1]].shape))
            case "scatter_add":
                out = x.scatter_add(info + lead, tensors[1].expand(rows, *values[args[1]].shape), tensors[2])
            case "reduce":
                name, axes, keep = info
                out = _reduce(name, x, [a + lead for a in axes], keep, values[result].dtype)
            case _:
                raise NotImplementedError(node.kind)
        found[result] = out

    return view


def _reduce(name: str, x: Tensor, axes: list[int], keep: bool, dtype: torch.dtype) -> Tensor:
    if name in ("argmax", "argmin", "prod"):
        (axis,) = axes
        return getattr(torch, name)(x, axis, keepdim=keep)
    if name in ("any", "all"):
        for axis in sorted(axes, reverse=True):
            x = getattr(torch, name)(x, axis, keepdim=keep)
        return x
    if name == "sum":
        return torch.sum(x, axes, keepdim=keep, dtype=dtype)
    return getattr(torch, name)(x, axes, keepdim=keep)
