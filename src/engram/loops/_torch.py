"""A program run as torch operations, step by step: any device and dtype, no autograd graph.

A program becomes a Python function (:mod:`._torch_step`), so that a step costs only torch's own calls.
:func:`run_nodes` runs nodes one by one, for what runs outside the loop.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import Graph, Node
from engram.loops._layout import Arrays, Span
from engram.loops._memory import empty
from engram.loops._products import matmul
from engram.loops._program import Program, Source
from engram.loops._torch_lines import line, name
from engram.loops._torch_step import step_function

Environment = dict[Any, Any]


def run(program: Program, graph: Graph, shared: Environment, arrays: Arrays, carried: list[Tensor], span: Span) -> None:
    """Run a program over a span of steps. Arrays are written in place, and so is the list of carried values."""
    names = (*program.writes, *(f"{what}{k}" for k in program.changes for what in ("slots", "old")))
    wanted = tuple(name for name in names if name in arrays)
    key = ("bound", id(program), wanted)
    device = carried[0].device
    if key not in shared:
        function = step_function(program, graph, wanted)
        shared[key] = function.bind(shared, device), function.room(span.alive[0], device)
    step, room = shared[key]
    reads = [arrays.steps(source, span) for source in program.reads.values()]
    writes = [arrays.steps(Source(name), span) for name in wanted]
    buffers = [arrays.tensors[f"rebuilt{k}"] for k in program.rebuilt]
    noted = [(arrays.steps(Source(f"slots{k}"), span), arrays.steps(Source(f"old{k}"), span)) for k in program.rebuilt]
    late = [n for n, k in enumerate(program.rebuilt) if k in program.late]
    written = {field for field, _ in program.puts.values()}
    single = [k in written for k in program.rebuilt]
    state, slots = tuple(carried), room
    for t in span.order():
        k, m = t - span.start, span.alive[t]
        if slots and len(slots[0]) != m:
            slots = [slot[:m] for slot in room]
        whole = m == len(state[0]) if state else True
        for n, (places, old) in enumerate(noted):
            if n not in late:
                buffers[n] = taken_back(buffers[n], places[k], old[k], single[n])
        before = [*(buffer[:m] for buffer in buffers), *(state if whole else (s[:m] for s in state))]
        new = step(m, *[rows[k] for rows in reads], *before, *[rows[k] for rows in writes], *slots)
        for n in late:
            buffers[n] = taken_back(buffers[n], noted[n][0][k], noted[n][1][k], single[n])
        state = new if whole else tuple(torch.cat([n, s[m:]]) for n, s in zip(new, state, strict=True))
    carried[:] = state
    arrays.tensors |= {f"rebuilt{k}": buffer for k, buffer in zip(program.rebuilt, buffers, strict=True)}


def taken_back(buffer: Tensor, slots: Tensor, old: Tensor, single: bool) -> Tensor:
    """A buffer with what was in its slots before a step: a new tensor, for somebody may keep a view of the one given.

    Args:
        slots: ``(m, R)``, the numbers of slots, -1 for none.
        old: ``(m, R, *slot)``.
        single: R slots were written one after the other; else all are there, each at its place.
    """
    rows, ones = len(slots), [1] * (buffer.dim() - 2)
    found = buffer[:rows]
    if not single:
        return torch.cat([torch.where((slots >= 0).view(rows, -1, *ones), old, found), buffer[rows:]])
    numbers = torch.arange(buffer.shape[1], device=slots.device, dtype=slots.dtype)
    for n in reversed(range(slots.shape[1])):
        here = (slots[:, n : n + 1] == numbers).view(rows, -1, *ones)
        found = torch.where(here, old[:, n : n + 1], found)
    return torch.cat([found, buffer[rows:]])


def run_nodes(graph: Graph, nodes: Iterable[Node], found: Environment) -> None:
    """Add the results of the nodes to ``found``; row values have the rows as their first axis."""
    for node in nodes:
        if node.kind == "product":
            found[node.result] = _product(graph, node, found)
            continue
        if node.result not in graph.lines:
            constants: list[Any] = []
            code = compile(line(graph, node, constants), "<node>", "eval")
            graph.lines[node.result] = code, {f"k{i}": constant for i, constant in enumerate(constants)}
        code, given = graph.lines[node.result]
        scope: Environment = given | {"torch": torch, "m": found.get("rows"), "device": _device(found)}
        out = eval(code, scope | {name(a): found[a] for a in node.args})
        found.update(zip(node.results, out if len(node.results) > 1 else (out,), strict=True))


def _product(graph: Graph, node: Node, found: Environment) -> Tensor:
    """Rows times a matrix, plus a vector if the node has a third operand."""
    rows, matrix, *bias = (found[a] for a in node.args)
    flat = rows.reshape(-1, rows.shape[-1])
    out = empty((len(flat), matrix.shape[1]), rows)
    return matmul(flat, matrix, out, bias=bias[0] if bias else None).view(-1, *graph.values[node.result].shape)


def run_shared(graph: Graph, nodes: list[Node], given: list[int]) -> Callable[..., Environment]:
    """Nodes on shared values as one function: of the values ``given``, it returns these and all results by number."""
    constants: list[Any] = []
    lines = []
    for node in nodes:
        results = ", ".join(map(name, node.results)) + ("," if len(node.results) > 1 else "")
        lines.append(f"    {results} = {line(graph, node, constants)}")
    made = [*given, *(result for node in nodes for result in node.results)]
    scope: Environment = {"torch": torch} | {f"k{i}": constant for i, constant in enumerate(constants)}
    body = [f"def run({', '.join(map(name, given))}):", *lines]
    body.append(f"    return {{{', '.join(f'{value}: {name(value)}' for value in made)}}}")
    exec("\n".join(body), scope)
    function: Callable[..., Environment] = scope["run"]
    return function


def _device(found: Environment) -> torch.device:
    return next(value.device for value in found.values() if isinstance(value, Tensor))
