"""A program as a Python function of one step, with as few torch calls, and as little memory, as it needs.

A call costs a microsecond or two, and fresh memory costs more. So a sum and the product in it are one call (``addmm``,
``addcmul``); a result is written at once (``out=``) to its row of an array, or to a *slot*, memory that every step uses
again; and results that nothing reads are not computed.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import Graph, Node
from engram.loops._products import Multiplier, compiled_for
from engram.loops._program import Program, used
from engram.loops._torch_lines import aten, line, name
from engram.loops._trace import Ref

TAKES_OUT = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.tanh.default, aten.sigmoid.default,
    aten.neg.default, aten.exp.default, aten.abs.default,
}  # fmt: skip
INTO = {  # operations whose ``out`` has another name
    aten.tanh_backward.default: aten.tanh_backward.grad_input,
    aten.sigmoid_backward.default: aten.sigmoid_backward.grad_input,
    aten.threshold_backward.default: aten.threshold_backward.grad_input,
}
SIGNS = {aten.add.Tensor: 1, aten.sub.Tensor: -1}


@dataclass(frozen=True)
class StepFunction:
    """The function of a step, to be bound to what is shared, and the shapes and dtypes of its slots."""

    bind: Callable[..., Any]
    slots: list[tuple[tuple[int, ...], torch.dtype]]

    def room(self, rows: int, device: torch.device) -> list[Tensor]:
        return [torch.empty(rows, *shape, dtype=dtype, device=device) for shape, dtype in self.slots]


def step_function(program: Program, graph: Graph, wanted: tuple[str, ...]) -> StepFunction:
    """Made once for each choice of arrays.

    ``bind(shared, device)`` gives the function of a step: of the number of rows, what is read, the buffers that are
    taken back, the values carried, the rows of the ``wanted`` arrays, which it fills, and the slots; it returns what is
    carried on.
    """
    if wanted not in program.functions:
        writer = _Text(program, graph, wanted)
        scope: dict[str, Any] = {"torch": torch, "prepared": _prepared}
        text = writer.text()
        scope |= {f"k{i}": constant for i, constant in enumerate(writer.constants)}
        exec(text, scope)
        program.functions[wanted] = StepFunction(scope["bind"], writer.slots)
    found: StepFunction = program.functions[wanted]
    return found


def _prepared(matrix: Tensor) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """rows @ matrix, and start + rows @ matrix; by C if it is compiled: same bits for any number of threads."""
    if compiled_for(matrix) is not None:
        times = Multiplier(matrix)
        return times, lambda start, rows, out=None: torch.add(start, times(rows), out=out)
    return (
        lambda rows, out=None: torch.mm(rows, matrix, out=out),
        lambda start, rows, out=None: torch.addmm(start, rows, matrix, out=out),
    )


@dataclass
class _Line:
    """``results = expression``; ``into``, if there is one, is the call with a gap for where the result is written."""

    results: list[int]
    reads: tuple[int, ...]
    expression: str
    into: str = ""

    def written(self) -> str:
        return f"{', '.join(map(name, self.results))} = {self.expression}"


def _placed(call: str, argument: str) -> str:
    return f"{call[:-1]}, {argument}={{}})"


class _Text:
    """The text of one program, while it is written."""

    def __init__(self, program: Program, graph: Graph, wanted: tuple[str, ...]) -> None:
        self.program, self.graph, self.wanted = program, graph, wanted
        self.constants: list[Any] = []
        self.slots: list[tuple[tuple[int, ...], torch.dtype]] = []
        self.places = {array: value for array, value in program.writes.items() if array in wanted}
        self.changes = {k: pair for k, pair in program.changes.items() if f"slots{k}" in wanted}
        carried = [after for _, after in program.carried]
        self.writes = {k: [v for v, (field, _) in program.puts.items() if field == k] for k in self.changes}
        slots = [a for node in program.nodes if node.result in program.puts for a in node.args]
        self.last = [*self.places.values(), *carried, *(value for pair in self.changes.values() for value in pair)]
        self.last += slots if self.changes else []
        """What is still read when all lines have run."""
        self.nodes = used(program.nodes, self.last)
        self.uses = Counter(self.last) + Counter(a for node in self.nodes for a in node.args)
        self.makers = {node.result: node for node in self.nodes}
        self.taken: set[int] = set()
        """Values that are computed in the line of another."""

    def text(self) -> str:
        program = self.program
        lines = self.lines()
        filled = self.find_places(lines)
        body = [item.written() for item in lines]
        body += [f"{array}.copy_({name(value)})" for array, value in self.places.items() if array not in filled]
        for k, (a, b) in self.changes.items():
            body += self.noted(k, a, b)
        read = [*map(name, (*program.reads, *program.rebuilt.values(), *(before for before, _ in program.carried)))]
        slots = [f"slot{k}" for k in range(len(self.slots))]
        products = {node.args[1] for node in self.nodes if node.kind == "product"}
        return "\n".join(
            [
                "def bind(shared, device):",
                *(f"    {name(value)} = shared[{value}]" for value in program.shared),
                *(f"    times{value}, plus{value} = prepared({name(value)})" for value in sorted(products)),
                f"    def step({', '.join(['m', *read, *self.wanted, *slots])}):",
                *(f"        {statement}" for statement in body),
                f"        return ({''.join(f'{name(after)}, ' for _, after in program.carried)})",
                "    return step",
            ]
        )

    def noted(self, k: int, before: int, after: int) -> list[str]:
        """Which slots of a buffer change, and what was in them."""
        if not self.writes[k]:
            numbers = f"torch.arange({name(before)}.shape[1], dtype=slots{k}.dtype, device=device)"
            changed = f"({name(after)} != {name(before)}).flatten(2).any(2)"
            return [f"slots{k}.copy_(torch.where({changed}, {numbers}, -1))", f"old{k}.copy_({name(before)})"]
        found = []
        for n, value in enumerate(self.writes[k]):
            base, index, _ = self.makers[value].args
            at = f"{name(index)}.expand(m, {''.join(f'{size}, ' for size in self.graph.values[index].shape)})"
            found += [
                f"old{k}[:, {n} : {n + 1}] = {name(base)}.gather(1, {at})",
                f"changed = ({name(value)}.gather(1, {at}) != old{k}[:, {n} : {n + 1}]).flatten(1).any(1)",
                f"slots{k}[:, {n}] = torch.where(changed, {at}.flatten(1)[:, 0], -1)",
            ]
        return found

    def lines(self) -> list[_Line]:
        joined = {node.result: self.joined(node) for node in self.nodes}
        found = []
        for node in self.nodes:
            if node.result in self.taken:
                continue
            if node.kind == "slice" and (pieces := self.pieces(node)):
                axis, first, last, _ = node.info
                cut = f"torch.unsafe_split({name(node.args[0])}, {last - first}, {axis + 1})"
                found.append(_Line(pieces, node.args, cut))
                self.taken.update(pieces)
            else:
                found.append(joined[node.result] or self.single(node))
        return found

    def find_places(self, lines: list[_Line]) -> set[str]:
        """Choose where each line writes its result; returns the arrays that are filled in this way."""
        end = self.ends(lines)
        filled: set[str] = set()
        until: list[float] = []  # of each slot, the last line that reads what is in it
        for k, item in enumerate(lines):
            if not item.into:
                continue
            (result,) = item.results
            kind = self.graph.values[result]
            array = next((array for array, value in self.places.items() if value == result), None)
            if array is not None:
                filled.add(array)
                where = array
            elif end[result] == inf:
                continue
            else:
                wanted = (kind.shape, kind.dtype)
                free = (s for s, last in enumerate(until) if last < k and self.slots[s] == wanted)
                slot = next(free, len(until))
                if slot == len(until):
                    until.append(0)
                    self.slots.append(wanted)
                until[slot], where = end[result], f"slot{slot}"
            item.expression = item.into.format(where)
        return filled

    def ends(self, lines: list[_Line]) -> dict[int, float]:
        """The last line that reads a value, or something that may be a view of it."""
        end: dict[int, float] = dict.fromkeys(self.last, inf)
        for k in range(len(lines) - 1, -1, -1):
            item = lines[k]
            seen = k if item.into else max([k, *(end.get(result, k) for result in item.results)])
            for a in item.reads:
                end[a] = max(end.get(a, 0), seen)
        return end

    def single(self, node: Node) -> _Line:
        """The line of a node alone."""
        values, into = self.graph.values, ""
        expression = line(self.graph, node, self.constants)
        if all(values[a].dtype == values[node.result].dtype for a in node.args):
            pointwise = node.info[0] if node.kind == "pointwise" else None
            if node.kind == "cat" or self.is_flat_product(node) or pointwise in TAKES_OUT:
                into = _placed(expression, "out")
            elif pointwise in INTO:
                other = replace(node, info=(INTO[pointwise], *node.info[1:]))
                into = _placed(line(self.graph, other, self.constants), "grad_input")
        return _Line([node.result], node.args, expression, into)

    def pieces(self, node: Node) -> list[int]:
        """The slices of one value, if they are equal pieces that make it up: one call for all."""
        axis, first, last, _ = node.info
        size, width = self.graph.values[node.args[0]].shape[axis], last - first
        cuts = [(axis, at, at + width, 1) for at in range(0, size, width)] if width else []
        found = {n.info: n.result for n in self.nodes if n.kind == "slice" and n.args == node.args}
        return [found[cut] for cut in cuts] if len(cuts) > 1 and all(cut in found for cut in cuts) else []

    def joined(self, node: Node) -> _Line | None:
        """A sum or difference together with the product in it; None if there is none."""
        if node.kind != "pointwise" or node.info[0] not in SIGNS or node.info[2] or len(node.args) != 2:
            return None
        sign = SIGNS[node.info[0]]
        first, second = node.args
        for start, product in ((first, second), (second, first))[: 2 if sign > 0 else 1]:
            maker = self.makers.get(product)
            if maker is None or self.uses[product] > 1 or product in self.taken or not self.alike(node, maker):
                continue
            x = name(start)
            if self.is_flat_product(maker) and sign > 0:
                found = f"plus{maker.args[1]}({x}, {name(maker.args[0])})"
            elif maker.kind == "pointwise" and maker.info[0] is aten.mul.Tensor and not maker.info[2]:
                a, b = maker.info[1]
                if isinstance(a, Ref) and isinstance(b, Ref):
                    found = f"torch.addcmul({x}, {name(a.number)}, {name(b.number)}, value={sign})"
                elif isinstance(a, Ref) and isinstance(b, (int, float)):
                    self.constants.append(sign * b)
                    found = f"torch.add({x}, {name(a.number)}, alpha=k{len(self.constants) - 1})"
                else:
                    continue
            else:
                continue
            self.taken.add(product)
            return _Line([node.result], (start, *maker.args), found, _placed(found, "out"))
        return None

    def is_flat_product(self, node: Node) -> bool:
        """Whether one row of it is a vector times a matrix."""
        return node.kind == "product" and len(self.graph.values[node.args[0]].shape) == 1

    def alike(self, node: Node, maker: Node) -> bool:
        """Whether all are numbers of one dtype, and the product has the shape of the sum."""
        values = self.graph.values
        result, product = values[node.result], values[maker.result]
        dtypes = {values[v].dtype for v in (*node.args, *maker.args)}
        real = result.dtype.is_floating_point or result.dtype.is_complex
        return real and dtypes == {result.dtype} and product.shape == result.shape and product.rows
