"""A program as C: one function that takes a block of rows through a span of steps.

    for every step of the span:
        products with packed weights (rt->multiply), for all rows of the block at once
        groups of pointwise nodes, each one loop over the numbers of a row (:mod:`._c_groups`)
        reductions, per-row products and choices (:mod:`._c_others`)
        rows written to arrays, and what is carried over

Every value that must lie in memory has a row of scratch memory for each row of the block, so all of it stays in the
cache. The text names no size and no number (they are ``n[k]`` and ``s[k]``): cells of different sizes share it.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from engram.loops._c_views import ONE, Memory, Number, View
from engram.loops._graph import Graph, Node
from engram.loops._plan import Program, Source
from engram.loops._trace import CannotCompile

INTEGERS = {torch.bool: "uint8_t", torch.int64: "int64_t", torch.int32: "int32_t"}


@dataclass
class Text:
    """A generated loop: its C, and what its caller fills in."""

    source: str
    sizes: list[int]
    numbers: list[float]
    arrays: list[tuple[str, Any]]
    """What each pointer is: ``rows`` of an array (by name), ``start`` or ``carried`` (by number), ``shared`` or
    ``panels`` (by value)."""


@dataclass
class Group:
    """Pointwise nodes of one shape that run in one loop."""

    shape: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    stores: list[tuple[int, View]] = field(default_factory=list)
    behind: set[int] = field(default_factory=set)
    """Values that exist only when the group has run: its own, and what is made of them."""


class Generator:
    """Writes the function of one program."""

    def __init__(self, program: Program, graph: Graph, real: torch.dtype) -> None:
        self.program, self.graph, self.real = program, graph, real
        self.sizes: list[int] = []
        self.numbers: list[float] = []
        self.arrays: list[tuple[str, Any]] = []
        self.setup: list[str] = []
        self.memory: list[str] = []
        self.lines: list[str] = []
        self.views: dict[int, View] = {}
        self.group: Group | None = None
        self.buffers = 0
        self.filled: set[str] = set()
        """Arrays whose rows are the memory of a value: nothing is copied to them."""
        self.indent = 2
        self.uses = Counter(a for node in program.nodes for a in node.args)
        self.uses.update([*program.writes.values(), *(after for _, after in program.carried)])
        """How often each value is still to be read."""

    # Names of what is given at run time.

    def stride(self, value: int) -> Number:
        """As :meth:`size`; 1 is named, so that loops over neighbours are seen to be that."""
        return ONE if value == 1 else self.size(value)

    def size(self, value: int) -> Number:
        self.sizes.append(value)
        return Number(f"c->n[{len(self.sizes) - 1}]", value)

    def number(self, value: float) -> str:
        self.numbers.append(float(value))
        return f"c->s[{len(self.numbers) - 1}]"

    def pointer(self, kind: str, what: Any, type: str) -> str:
        self.arrays.append((kind, what))
        k = len(self.arrays) - 1
        self.setup.append(f"{type} *const a{k} = c->a[{k}];")
        return f"a{k}"

    def matrix(self, value: int) -> int:
        """The number of the pointer to a matrix, packed or as it lies."""
        self.arrays.append(("panels", value))
        return len(self.arrays) - 1

    def type_of(self, value: int) -> str:
        dtype = self.graph.values[value].dtype
        if dtype == self.real:
            return "REAL"
        if dtype not in INTEGERS:
            raise CannotCompile(f"the loop in C computes in one real type, and a value is {dtype}")
        return INTEGERS[dtype]

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.indent + line)

    # Memory.

    def dense(self, memory: Memory, shape: tuple[int, ...]) -> View:
        strides: list[Number] = []
        step = 1
        for size in reversed(shape):
            strides.append(self.stride(step))
            step *= size
        return View(memory, shape, tuple(reversed(strides)))

    def scratch(self, value: int, width: str | None = None) -> Memory:
        """Rows for a value; ``width`` numbers each, as many as it has by default."""
        k, type = self.buffers, self.type_of(value)
        self.buffers += 1
        name = width or self.size(self.graph.values[value].size).name
        self.memory.append(f"const int64_t p{k} = {name}, o{k} = total; total += room(rows * p{k} * sizeof({type}));")
        self.setup.append(f"{type} *const b{k} = ({type} *)(memory + o{k});")
        return Memory(f"b{k} + {{i}} * p{k}", type)

    def in_scratch(self, value: int) -> View:
        return self.dense(self.scratch(value), self.graph.values[value].shape)

    def home(self, value: int) -> View:
        """Memory for a value that is made now: the array that it is written to, if there is one, else scratch."""
        view = self.in_scratch(value)
        for array, written in self.program.writes.items():
            if written == value and array not in self.filled:
                self.filled.add(array)
                pointer, width = (
                    self.pointer("rows", array, view.memory.type),
                    self.size(self.graph.values[value].size).name,
                )
                place = f"({pointer} ? {pointer} + (row + {{i}}) * {width} : {view.pointer})"
                return View(Memory(place, view.memory.type), view.shape, view.strides)
        return view

    def rows_of(self, source: Source, value: int) -> View:
        """A row of an array, at this step or at the one before."""
        kind, shape = self.type_of(value), self.graph.values[value].shape
        name, width = self.pointer("rows", source.array, kind), self.size(self.graph.values[value].size).name
        if source.before is None:
            return self.dense(Memory(f"{name} + (row + {{i}}) * {width}", kind), shape)
        start = self.pointer("start", source.before, kind)
        choice = f"({{i}} < came ? {name} + (came_row + {{i}}) * {width} : {start} + (first + {{i}}) * {width})"
        return self.dense(Memory(choice, kind), shape)

    # The whole.

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
            carried.append((given, self.size(self.graph.values[value].size).name, self.views[value]))
            self.take_back(k, value)
        for value in program.shared:
            self.shared(value)
        from engram.loops._c_groups import close, node

        for item in program.nodes:
            node(self, item)
            self.uses.subtract(item.args)
        for array, value in program.writes.items():
            if array in self.filled:
                continue
            pointer, width = self.pointer("rows", array, self.type_of(value)), self.graph.values[value].size
            place = f"({pointer} ? {pointer} + (row + {{i}}) * {self.size(width).name} : {self.unwanted(value)})"
            self.copy_to(value, self.dense(Memory(place, self.type_of(value)), self.graph.values[value].shape))
            self.uses[value] -= 1
        results = [
            (self.in_memory(after), view) for (_, after), (_, _, view) in zip(program.carried, carried, strict=False)
        ]
        close(self)
        for k, (before, after) in program.changes.items():
            self.note(k, before, after)
        for made, view in results:
            if made != view:
                size = f"{self.size(torch.Size(view.shape).numel()).name} * sizeof({view.memory.type})"
                self.emit(f"for (int64_t i = 0; i < m; i++) memcpy({view.row()}, {made.row()}, {size});")
        return Text(self.text(name, carried), self.sizes, self.numbers, self.arrays)

    def note(self, k: int, before: int, after: int) -> None:
        """Which slots of a buffer this step changes, and what was in them."""
        self.over_slots(k, before, "memcmp(x, {new}, size) != 0", after)

    def take_back(self, k: int, value: int) -> None:
        """Put back what was in the slots of a buffer before this step."""
        self.over_slots(k, value)

    def over_slots(self, k: int, value: int, differs: str = "", after: int | None = None) -> None:
        """The loop over the slots of a buffer, to note changes or to take them back."""
        kind, type = self.graph.values[value], self.type_of(value)
        many, whole = self.size(kind.shape[0]).name, self.size(kind.size).name
        slot = self.size(kind.size // max(1, kind.shape[0])).name
        slots, old = self.pointer("rows", f"slots{k}", "uint8_t"), self.pointer("rows", f"old{k}", type)
        here = self.views[value].row()
        if after is not None:
            self.emit(f"if ({slots})")
            view = self.in_memory(after)
            if not view.is_dense():
                raise CannotCompile("a buffer is seen in another order than it lies")
            there = f"{view.row()} + k * {slot}"
        self.emit("for (int64_t i = 0; i < m; i++)")
        self.emit(f"  for (int64_t k = 0; k < {many}; k++) {{")
        self.emit(f"    const size_t size = {slot} * sizeof({type});")
        self.emit(f"    {type} *const x = {here} + k * {slot}, *const y = {old} + (row + i) * {whole} + k * {slot};")
        flag = f"{slots}[(row + i) * {many} + k]"
        if after is not None:
            self.emit(f"    if (({flag} = {differs.format(new=there)})) memcpy(y, x, size);")
        else:
            self.emit(f"    if ({flag}) memcpy(x, y, size);")
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

    def unwanted(self, value: int) -> str:
        """Where an array that nobody wants goes: a row that is written again and again."""
        memory = self.scratch(value)
        return memory.row("0")

    def shared(self, value: int) -> None:
        kind = self.graph.values[value]
        users = [n for n in self.program.nodes if value in n.args]
        if any(n.kind != "product" or n.args[1] != value for n in users):
            name = self.pointer("shared", value, self.type_of(value))
            self.views[value] = self.dense(Memory(name, self.type_of(value)), kind.shape)

    # Values in memory.

    def in_memory(self, value: int) -> View:
        """Where a value lies; one that is only in a register of the open group is stored now."""
        if value not in self.views:
            view, group = self.home(value), self.open_group()
            group.stores.append((value, view))
            self.views[value] = view
        return self.views[value]

    def open_group(self) -> Group:
        if self.group is None:
            raise CannotCompile("a value is read before it is made")
        return self.group

    def settled(self, value: int) -> View:
        """:meth:`in_memory`, and the numbers are there."""
        from engram.loops._c_groups import close

        view = self.in_memory(value)
        if self.group is not None and value in self.group.behind:
            close(self)
        return view

    def copy_to(self, value: int, place: View) -> None:
        """Store a value at a place: in the open group if it is made there, else by a loop of its own."""
        from engram.loops._c_groups import copy

        if self.group is not None and value in self.group.made:
            self.group.stores.append((value, place))
        else:
            copy(self, self.settled(value), place)


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
  for (int64_t k = c->begin; k < c->end; k++) {{
    const int64_t t = c->reverse != c->backwards ? c->end - 1 - (k - c->begin) : k;
    const int64_t m = rows_alive(c, t, first, rows), row = c->offsets[t] + first;
    const int64_t from = c->reverse ? t + 1 : t - 1, came = rows_alive(c, from, first, rows);
    const int64_t came_row = came ? c->offsets[from] + first : 0;
    (void)row, (void)came_row;
{body}
  }}
  {out}
  free(memory);
  return 0;
}}

int {name}(loop_call *c, int threads) {{ return run_blocks(c, threads, {name}_rows); }}
"""
