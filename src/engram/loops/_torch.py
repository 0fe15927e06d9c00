"""A program run as torch operations, step by step: any device and dtype, no autograd graph.

A program becomes a Python function of one line per node, so that nothing but torch's own calls is left at a step.
:func:`run_nodes` runs nodes one by one, for what is done once: before, after and beside the loop.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import Graph, Node
from engram.loops._layout import Arrays, Span
from engram.loops._products import Multiplier, compiled_for
from engram.loops._program import Program, Source
from engram.loops._trace import CannotCompile, Ref

aten = torch.ops.aten
Environment = dict[Any, Any]
SAFE = {
    aten._conj.default: aten.conj_physical.default,  # our products read memory, where a lazy conjugate is not yet
    aten.view.default: aten.reshape.default,  # a weight may lie in memory in another way than when it was traced
    aten._unsafe_view.default: aten.reshape.default,
}
TRANSPOSES = (aten.t.default, aten.transpose.int)
SHORT = {  # the same operations by a shorter way
    aten.add.Tensor: torch.add, aten.sub.Tensor: torch.sub, aten.mul.Tensor: torch.mul, aten.div.Tensor: torch.div,
    aten.tanh.default: torch.tanh, aten.sigmoid.default: torch.sigmoid, aten.relu.default: torch.relu,
    aten.neg.default: torch.neg, aten.exp.default: torch.exp, aten.rsub.Scalar: torch.rsub, aten.abs.default: torch.abs,
    aten.where.self: torch.where, aten.sgn.default: torch.sgn,
}  # fmt: skip


def run(program: Program, graph: Graph, shared: Environment, arrays: Arrays, carried: list[Tensor], span: Span) -> None:
    """Run a program over a span of steps. Arrays are written in place, and so is the list of carried values."""
    function, constants = _function(program, graph)
    key = ("bound", id(program))
    if key not in shared:
        shared[key] = function(shared, carried[0].device, *constants)
    step = shared[key]
    reads = [arrays.steps(source, span) for source in program.reads.values()]
    names = [*program.writes, *(f"{what}{k}" for k in program.changes for what in ("slots", "old"))]
    wanted = [name for name in names if name in arrays]
    places = [names.index(name) for name in wanted]
    buffers = [arrays.tensors[f"rebuilt{k}"] for k in program.rebuilt]
    noted = [(arrays.steps(Source(f"slots{k}"), span), arrays.steps(Source(f"old{k}"), span)) for k in program.rebuilt]
    written: list[list[Tensor]] = [[] for _ in wanted]
    state = tuple(carried)
    for t in span.order():
        m = span.alive[t]
        whole = m == len(state[0]) if state else True
        for k, (slots, old) in enumerate(noted):  # a new tensor: somebody may keep a view of the one before
            changed = slots[t - span.begin].view(m, -1, *[1] * (buffers[k].dim() - 2))
            buffer = torch.where(changed, old[t - span.begin], buffers[k][:m])
            buffers[k] = torch.cat([buffer, buffers[k][m:]])
        before = [buffer[:m] for buffer in buffers]
        now = [rows[t - span.begin] for rows in reads]
        made, new = step(m, *now, *before, *(state if whole else [s[:m] for s in state]))
        for rows, place in zip(written, places, strict=True):
            rows.append(made[place])
        state = new if whole else tuple(torch.cat([n, s[m:]]) for n, s in zip(new, state, strict=True))
    carried[:] = state
    arrays.tensors |= {f"rebuilt{k}": buffer for k, buffer in zip(program.rebuilt, buffers, strict=True)}
    for name, rows in zip(wanted, written, strict=True):
        torch.cat(rows if span.reverse is span.backwards else rows[::-1], out=arrays.rows(name, span))


def run_nodes(graph: Graph, nodes: Iterable[Node], found: Environment) -> None:
    """Add the results of the nodes to ``found``; row values have the rows as their first axis."""
    for node in nodes:
        constants: list[Any] = []
        text = _line(graph, node, constants)
        scope: Environment = {"torch": torch, "m": found.get("rows"), "device": _device(found), "times": {}}
        scope |= {f"k{i}": constant for i, constant in enumerate(constants)}
        scope |= {name(a): found[a] for a in node.args}
        if node.kind == "product":
            scope["times"] = {node.args[1]: Multiplier(found[node.args[1]])}
        out = eval(text, scope)
        found.update(zip(node.results, out if len(node.results) > 1 else (out,), strict=True))


def run_shared(graph: Graph, nodes: list[Node], given: list[int]) -> Callable[..., Environment]:
    """Nodes on shared values as one function: of the values ``given``, it returns these and all results by number."""
    constants: list[Any] = []
    lines = []
    for node in nodes:
        results = ", ".join(map(name, node.results)) + ("," if len(node.results) > 1 else "")
        lines.append(f"    {results} = {_line(graph, node, constants)}")
    made = [*given, *(result for node in nodes for result in node.results)]
    scope: Environment = {"torch": torch} | {f"k{i}": constant for i, constant in enumerate(constants)}
    body = [f"def run({', '.join(map(name, given))}):", *lines]
    body.append(f"    return {{{', '.join(f'{value}: {name(value)}' for value in made)}}}")
    exec("\n".join(body), scope)
    function: Callable[..., Environment] = scope["run"]
    return function


def _device(found: Environment) -> torch.device:
    return next(value.device for value in found.values() if isinstance(value, Tensor))


def _function(program: Program, graph: Graph) -> tuple[Callable[..., Any], list[Any]]:
    """The Python function of a program, made once: of what is shared, it returns a function of one step."""
    if program.function is None:
        constants: list[Any] = []
        body = [f"        v{node.result} = {_line(graph, node, constants)}" for node in program.nodes]
        reads = [name(value) for value in (*program.reads, *program.rebuilt.values())]
        state = [name(value) for value, _ in program.carried]
        written = "".join(f"{name(value)}, " for value in program.writes.values())
        written += "".join(
            f"({name(b)} != {name(a)}).flatten(2).any(2), {name(a)}, " for a, b in program.changes.values()
        )
        after = "".join(f"{name(value)}, " for _, value in program.carried)
        products = {node.args[1] for node in program.nodes if node.kind == "product"}
        text = "\n".join(
            [
                f"def bind({', '.join(['shared', 'device', *(f'k{i}' for i in range(len(constants)))])}):",
                *(f"    v{value} = shared[{value}]" for value in program.shared),
                f"    times = {{value: prepared(shared[value]) for value in {sorted(products)}}}",
                f"    def step({', '.join(['m', *reads, *state])}):",
                *body,
                f"        return ({written}), ({after})",
                "    return step",
            ]
        )
        scope: dict[str, Any] = {"torch": torch, "prepared": _prepared}
        exec(text, scope)
        program.function = (scope["bind"], constants)
    return program.function


def _prepared(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """A function that multiplies rows with a matrix: by C if there is any, where bits do not depend on threads."""
    if compiled_for(matrix) is not None:
        return Multiplier(matrix)
    return lambda rows: torch.mm(rows, matrix)


def name(value: int) -> str:
    """How a value is called in the text."""
    return f"v{value}"


def _line(graph: Graph, node: Node, constants: list[Any]) -> str:
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
            function = SAFE.get(function, function)
            given = [*map(written, args), *(f"{key}={written(item)}" for key, item in kwargs.items())]
            return f"{constant(SHORT.get(function, function))}({', '.join(given)})"
        case "product":
            if len(values[node.args[0]].shape) == 1:
                return f"times[{node.args[1]}]({x})"
            return f"times[{node.args[1]}]({x}.reshape(-1, {values[node.args[0]].shape[-1]})).view(m, {_sizes(shape)})"
        case "inner":
            return f"torch.matmul({x}, {name(node.args[1])})"
        case "fill":
            return f"torch.full((m, {_sizes(shape)}), {constant(info)}, dtype={constant(result.dtype)}, device=device)"
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
            return f"k{len(constants) - 1}({x}, (m, {_sizes(shape)}), {axis_place(info, lead)})"
        case "cat":
            return f"torch.cat(({''.join(name(a) + ', ' for a in node.args)}), {info + lead})"
        case "gather":
            return f"torch.gather({x}, {info + lead}, {_index(values, node)})"
        case "scatter_add":
            return f"{x}.scatter_add({info + lead}, {_index(values, node)}, {name(node.args[2])})"
        case "reduce":
            what, axes, keep = info
            constants.append(_reduce)
            return f"k{len(constants) - 1}({what!r}, {x}, {[a + lead for a in axes]}, {keep}, {constant(result.dtype)})"
    raise CannotCompile(f"torch has no operation for a node of the kind {node.kind}", node.line)


def _sizes(shape: Iterable[int]) -> str:
    return "".join(f"{size}, " for size in shape)


def _index(values: Any, node: Node) -> str:
    return f"{name(node.args[1])}.expand(m, {_sizes(values[node.args[1]].shape)})"


def axis_place(info: tuple[int, int, int, int], lead: int) -> str:
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
