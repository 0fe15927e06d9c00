"""A program as C: one function that takes a block of rows through a span of steps.

    for every step of the span:
        products with packed weights (rt->multiply), for all rows of the block at once
        groups of pointwise nodes, each one loop over the numbers of a row (:mod:`._c_groups`)
        reductions, per-row products and choices (:mod:`._c_others`)
        rows written to arrays, and what is carried over

Every value that must lie in memory has a row of scratch memory for each row of the block, so all of it stays in the
cache. The text names no size and no number (they are ``n[k]`` and ``s[k]``): cells of different sizes share it.
"""

from dataclasses import dataclass
from typing import Any

import torch

from engram.loops._c_groups import close, copy_to, join, pointwise, view
from engram.loops._c_loops import copy
from engram.loops._c_others import others
from engram.loops._c_views import Memory, View
from engram.loops._c_writer import Writer
from engram.loops._graph import Node
from engram.loops._schedule import scheduled
from engram.loops._trace import CannotCompile


@dataclass
class Text:
    """A generated loop: its C, and what its caller fills in."""

    source: str
    sizes: list[int]
    numbers: list[float]
    arrays: list[tuple[str, Any]]
    """What each pointer is: ``rows`` of an array (by name), ``start`` or ``carried`` (by number), ``shared`` or
    ``panels`` (by value)."""


class Generator(Writer):
    """Writes the function of one program."""

    def generate(self, name: str) -> Text:
        program = self.program
        for value, source in program.reads.items():
            self.views[value] = self.rows_of(source, value)
        carried = []
        for k, (value, _) in enumerate(program.carried):
            given = self.pointer("carried", k, self.type_of(value))
            view = self.in_scratch(value)
            self.views[value] = view
            carried.append((given, self.size(self.graph.values[value].size).name, view))
        for k, value in program.rebuilt.items():
            given = self.pointer("field", f"rebuilt{k}", self.type_of(value))
            self.views[value] = self.in_scratch(value)
            self.fixed.add(self.views[value].memory)
            carried.append((given, self.size(self.graph.values[value].size).name, self.views[value]))
            if k not in program.late:
                self.take_back(k, value)
        for value in program.shared:
            self.shared(value)
        for item in scheduled(self.graph, program.nodes):
            self.node(item)
            self.uses.subtract(item.args)
        self.write_arrays()
        self.carry([view for _, _, view in carried[: len(program.carried)]])
        for k in program.late:
            self.take_back(k, program.rebuilt[k])
        return Text(self.text(name, carried), self.sizes, self.numbers, self.arrays)

    def write_arrays(self) -> None:
        """What is to lie in arrays and does not yet."""
        for array, value in self.program.writes.items():
            if array in self.filled:
                continue
            pointer, width = self.pointer("rows", array, self.type_of(value)), self.graph.values[value].size
            row = f"({pointer} ? {pointer} + (row + {{i}}) * {self.size(width).name} : {self.unwanted(value)})"
            copy_to(self, value, self.dense(Memory(row, self.type_of(value)), self.graph.values[value].shape))
            self.uses[value] -= 1

    def carry(self, places: list[View]) -> None:
        """The new state in place of the old one, at the end of a step."""
        results = [self.in_memory(after) for _, after in self.program.carried]
        close(self)
        for k, (before, after) in self.program.changes.items():
            self.note(k, before, after)
        old = {place.memory for place in places}
        for k, (made, place) in enumerate(zip(results, places, strict=True)):
            if made.memory in old and made != place:  # a field that becomes another: the other may be overwritten first
                results[k] = self.in_scratch(self.program.carried[k][1])
                copy(self, made, results[k])
        for made, place in zip(results, places, strict=True):
            if made != place and made.is_dense():
                size = f"{self.size(torch.Size(place.shape).numel()).name} * sizeof({place.memory.type})"
                self.emit(f"for (int64_t i = 0; i < m; i++) memcpy({place.row()}, {made.row()}, {size});")
            elif made != place:
                copy(self, made, place)

    def node(self, item: Node) -> None:
        """Write a node, now or, if it is pointwise, with its group."""
        match item.kind:
            case "pointwise" | "fill":
                pointwise(self, item)
            case "reshape" | "permute" | "expand" | "slice":
                view(self, item)
            case "cat" | "pad":
                join(self, item)
            case _:
                others(self, item)

    def note(self, k: int, before: int, after: int) -> None:
        """Which slots of a buffer this step changes, and what was in them, if any may have changed."""
        if k in {field for field, _ in self.program.puts.values()}:
            return  # noted when they were written
        slots, old, width, count = self.noted_slots(k, before)
        view = self.in_memory(after)
        if not view.is_dense():
            raise CannotCompile("a buffer is seen in another order than it lies")
        type = self.type_of(before)
        self.emit(f"if ({slots})")
        self.emit("for (int64_t i = 0; i < m; i++)")
        self.emit(f"  for (int64_t k = 0; k < {count}; k++) {{")
        self.emit(f"    const size_t size = {width} * sizeof({type});")
        self.emit(f"    {type} *const x = {self.views[before].row()} + k * {width};")
        self.emit(f"    const int changed = memcmp(x, {view.row()} + k * {width}, size) != 0;")
        self.emit(f"    {slots}[(row + i) * {count} + k] = changed ? (int32_t)k : -1;")
        self.emit(f"    if (changed) memcpy({old} + ((row + i) * {count} + k) * {width}, x, size);")
        self.emit("  }")

    def take_back(self, k: int, value: int) -> None:
        """Put back what was in the slots of a buffer before this step, the last that was written first."""
        slots, old, width, count = self.noted_slots(k, value)
        type = self.type_of(value)
        self.emit("for (int64_t i = 0; i < m; i++)")
        self.emit(f"  for (int64_t k = {count} - 1; k >= 0; k--) {{")
        self.emit(f"    const int64_t slot = {slots}[(row + i) * {count} + k];")
        self.emit(f"    const {type} *const y = {old} + ((row + i) * {count} + k) * {width};")
        self.emit(
            f"    if (slot >= 0) memcpy({self.views[value].row()} + slot * {width}, y, {width} * sizeof({type}));"
        )
        self.emit("  }")

    def text(self, name: str, carried: list[tuple[str, str, View]]) -> str:
        into = [
            f"for (int64_t i = 0; i < rows; i++) memcpy({view.row()}, {given} + (first + i) * {width}, "
            f"{width} * sizeof({view.memory.type}));"
            for given, width, view in carried
        ]
        out = [
            f"for (int64_t i = 0; i < rows; i++) memcpy({given} + (first + i) * {width}, {view.row()}, "
            f"{width} * sizeof({view.memory.type}));"
            for given, width, view in carried
        ]
        body = "\n".join(self.lines)
        lines = "\n  ".join
        return TEMPLATE.format(
            name=name, memory=lines(self.memory), setup=lines(self.setup), into=lines(into), body=body, out=lines(out)
        )


TEMPLATE = """static int {name}_rows(const void *context, int64_t block) {{
  const loop_call *c = context;
  const engram_runtime *rt = c->rt;
  const int64_t first = c->batch * block / c->blocks, rows = c->batch * (block + 1) / c->blocks - first;
  int64_t total = 0;
  {memory}
  char *const memory = aligned_alloc(64, (size_t)(total + 64));
  if (!memory) return 1;
  {setup}
  {into}
  for (int64_t k = c->start; k < c->end; k++) {{
    const int64_t t = c->reverse != c->backwards ? c->end - 1 - (k - c->start) : k;
    const int64_t m = rows_alive(c, t, first, rows), row = c->offsets[t] + first;
    const int64_t before = c->reverse ? t + 1 : t - 1, alive_before = rows_alive(c, before, first, rows);
    const int64_t row_before = alive_before ? c->offsets[before] + first : 0;
    (void)row, (void)row_before;
{body}
  }}
  {out}
  free(memory);
  return 0;
}}

int {name}(loop_call *c, int threads) {{ return run_blocks(c, threads, {name}_rows); }}
"""
