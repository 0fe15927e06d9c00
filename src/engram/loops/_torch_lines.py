"""The Python expression of a node in torch operations."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import Graph, Node
from engram.loops._trace import CannotCompile, Ref

aten = torch.ops.aten
SAFE = {
    aten._conj.default: aten.conj_physical.default,  # our products read memory: a lazy conjugate is not there yet
    aten.view.default: aten.reshape.default,  # a weight may have other strides than when it was traced
    aten._unsafe_view.default: aten.reshape.default,
}
TRANSPOSES = (aten.t.default, aten.transpose.int)
SHORT = {  # the same operations by a shorter way
    aten.add.Tensor: torch.add, aten.sub.Tensor: torch.sub, aten.mul.Tensor: torch.mul, aten.div.Tensor: torch.div,
    aten.tanh.default: torch.tanh, aten.sigmoid.default: torch.sigmoid, aten.relu.default: torch.relu,
    aten.neg.default: torch.neg, aten.exp.default: torch.exp, aten.abs.default: torch.abs,
    aten.where.self: torch.where, aten.sgn.default: torch.sgn,
}  # fmt: skip


def name(value: int) -> str:
    """How a value is called in the text."""
    return f"v{value}"


def line(graph: Graph, node: Node, constants: list[Any]) -> str:
    """The expression of a node; what is no number in it becomes a constant k0, k1, ..."""
    values, info = graph.values, node.info
    result = values[node.result]
    shape, lead = result.shape, 1 if result.rows else 0
    x = name(node.args[0]) if node.args else ""

    def constant(value: Any) -> str:
        if value is None or isinstance(value, (bool, int)):
            return repr(value)
        constants.append(value)
        return f"k{len(constants) - 1}"

    def written(item: Any) -> str:
        if isinstance(item, Ref):
            return name(item.number)
        if isinstance(item, (tuple, list)):
            return "[" + ", ".join(map(written, item)) + "]"
        return constant(item)

    match node.kind:
        case "pointwise" | "rowwise" | "shared":
            function, args, kwargs = info
            if node.kind == "shared" and function in TRANSPOSES and len(values[node.args[0]].shape) == 2:
                return f"{x}.mT"
            if function is aten.rsub.Scalar and len(args) == 2 and not kwargs:
                # torch.rsub would make a tensor of the number at every step
                return f"torch.sub({constant(torch.tensor(args[1], dtype=result.dtype))}, {x})"
            function = SAFE.get(function, function)
            given = [*map(written, args), *(f"{key}={written(item)}" for key, item in kwargs.items())]
            return f"{constant(SHORT.get(function, function))}({', '.join(given)})"
        case "product":
            if len(values[node.args[0]].shape) == 1:
                return f"times{node.args[1]}({x})"
            return f"times{node.args[1]}({x}.reshape(-1, {values[node.args[0]].shape[-1]})).view(m, {_sizes(shape)})"
        case "inner":
            return f"torch.matmul({x}, {name(node.args[1])})"
        case "fill":
            return f"{constant(torch.tensor(info, dtype=result.dtype))}.to(device).expand(m, {_sizes(shape)})"
        case "reshape":
            return f"{x}.reshape(({'m, ' if lead else ''}{_sizes(shape)}))"
        case "permute":
            return f"{x}.permute({_sizes((*range(lead), *(a + lead for a in info)))})"
        case "expand":
            return f"{x}.expand(m, {_sizes(shape)})"
        case "slice":
            axis, first, last, step = info
            if step == 1:
                return f"{x}.narrow({axis + lead}, {first}, {last - first})"
            return f"{x}[{':, ' * (axis + lead)}{first}:{last}:{step}]"
        case "pad":
            constants.append(_pad)
            return f"k{len(constants) - 1}({x}, (m, {_sizes(shape)}), {_axis_place(info, lead)})"
        case "cat":
            return f"torch.cat(({''.join(name(a) + ', ' for a in node.args)}), {info + lead})"
        case "gather":
            return f"torch.gather({x}, {info + lead}, {_index(values, node)})"
        case "scatter_add":
            return f"{x}.scatter_add({info + lead}, {_index(values, node)}, {name(node.args[2])})"
        case "put":
            return f"{x}.scatter({info + lead}, {_index(values, node)}, {name(node.args[2])})"
        case "reduce":
            what, axes, keep = info
            constants.append(_reduce)
            return f"k{len(constants) - 1}({what!r}, {x}, {[a + lead for a in axes]}, {keep}, {constant(result.dtype)})"
    raise CannotCompile(f"torch has no operation for a node of the kind {node.kind}", node.line)


def _sizes(shape: Iterable[int]) -> str:
    return "".join(f"{size}, " for size in shape)


def _index(values: Any, node: Node) -> str:
    return f"{name(node.args[1])}.expand(m, {_sizes(values[node.args[1]].shape)})"


def _axis_place(info: tuple[int, int, int, int], lead: int) -> str:
    axis, first, last, step = info
    return f"{axis + lead}, {first}, {last}, {step}"


def _pad(x: Tensor, shape: tuple[int, ...], axis: int, first: int, last: int, step: int) -> Tensor:
    whole = x.new_zeros(shape)
    whole[(slice(None),) * axis + (slice(first, last, step),)] = x
    return whole


def _reduce(name: str, x: Tensor, axes: list[int], keep: bool, dtype: torch.dtype) -> Tensor:
    if name in ("argmax", "argmin", "prod"):
        found: Tensor = getattr(torch, name)(x, axes[0], keepdim=keep)
        return found
    if name in ("any", "all"):
        for axis in sorted(axes, reverse=True):
            x = getattr(torch, name)(x, axis, keepdim=keep)
        return x
    if name == "sum":
        return torch.sum(x, axes, keepdim=keep, dtype=dtype)
    extreme: Tensor = getattr(torch, name)(x, axes, keepdim=keep)
    return extreme
