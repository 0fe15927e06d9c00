"""The text of a generated loop while it is written: names, the places of values, and the open group."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from engram.loops._c_views import ONE, Memory, Number, View
from engram.loops._graph import Graph, Node
from engram.loops._program import Program, Source
from engram.loops._trace import CannotCompile

INTEGERS = {torch.bool: "uint8_t", torch.int64: "int64_t", torch.int32: "int32_t"}


@dataclass
class Group:
    """Pointwise nodes of one shape that run in one loop."""

    shape: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    stores: list[tuple[int, View]] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    """Values that exist only when the group has run: its own, and what is made of them."""


class Writer:
    """Collects a C function: names of sizes, numbers and arrays, scratch memory, lines, and the open group."""

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
        self.fixed: set[Memory] = set()
        """Memory that must stay as it is till the end of a step."""
        self.owned: set[Memory] = set()
        """Scratch memory: a value in it that is not read again may be overwritten."""
        self.filled: set[str] = set()
        """Arrays whose rows are the memory of a value: nothing is copied to them."""
        self.indent = 2
        self.uses = Counter(a for node in program.nodes for a in node.args)
        self.uses.update([*program.writes.values(), *(after for _, after in program.carried)])
        noted = {field for field, _ in program.puts.values()}
        self.uses.update(value for k, pair in program.changes.items() if k not in noted for value in pair)
        """How often each value is still to be read."""

    # Names of what is given at run time.

    def stride(self, value: int) -> Number:
        """As :meth:`size`; 1 is written out, so that the compiler sees loops over neighbouring numbers."""
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
        self.memory.append(f"const int64_t p{k} = {name}, o{k} = total; total += align(rows * p{k} * sizeof({type}));")
        self.setup.append(f"{type} *const b{k} = ({type} *)(memory + o{k});")
        made = Memory(f"b{k} + {{i}} * p{k}", type)
        self.owned.add(made)
        return made

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
        before, first = f"{name} + (row_before + {{i}}) * {width}", f"{start} + (first + {{i}}) * {width}"
        return self.dense(Memory(f"({{i}} < alive_before ? {before} : {first})", kind), shape)

    def unwanted(self, value: int) -> str:
        """Memory for an array that nobody wants: one row, overwritten by every step."""
        memory = self.scratch(value)
        return memory.row("0")

    def shared(self, value: int) -> None:
        kind = self.graph.values[value]
        users = [n for n in self.program.nodes if value in n.args]
        if any(n.kind != "product" or n.args[1] != value for n in users):
            name = self.pointer("shared", value, self.type_of(value))
            self.views[value] = self.dense(Memory(name, self.type_of(value)), kind.shape)

    def noted_slots(self, field: int, value: int) -> tuple[str, str, str, str]:
        """Of a buffer whose changes are noted: the arrays of their slots and of what was there, the size of a slot, and
        how many are noted per step."""
        kind = self.graph.values[value]
        writes = sum(1 for k, _ in self.program.puts.values() if k == field)
        slots = self.pointer("rows", f"slots{field}", "int32_t")
        old = self.pointer("rows", f"old{field}", self.type_of(value))
        width = self.size(kind.size // max(1, kind.shape[0])).name
        return slots, old, width, self.size(writes or kind.shape[0]).name

    # Values in memory.

    def in_memory(self, value: int) -> View:
        """Where a value lies; one that is only in a register of the open group is stored now."""
        if value not in self.views:
            view, group = self.home(value), self.open_group()
            group.stores.append((value, view))
            self.views[value] = view
        return self.views[value]

    def may_overwrite(self, value: int, uses: int = 1) -> bool:
        """Whether the numbers of a value, or a part of them, are read by nobody later on.

        Args:
            uses: how often the value is still to be read by whoever asks.
        """
        memory = self.views[value].memory
        if memory not in self.owned or memory in self.fixed:
            return False
        others = (v for v, view in self.views.items() if view.memory == memory and v != value)
        return self.uses[value] == uses and not any(self.uses[v] > 0 for v in others)

    def open_group(self) -> Group:
        if self.group is None:
            raise CannotCompile("a value is read before it is made")
        return self.group
