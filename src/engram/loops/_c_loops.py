"""Loops over the numbers of a row in C: in vectors where all that is read and stored allows it."""

from typing import Any, NamedTuple

from engram.loops._c_views import ONE, ZERO, View
from engram.loops._c_writer import Writer


class Line(NamedTuple):
    """``const type name = render(vectors);``; ``fits`` says whether it is right on vectors."""

    name: str
    type: str
    render: Any
    fits: bool


def copy(g: Writer, source: View, target: View) -> None:
    """A loop that only moves numbers, written at once."""
    loops(g, source.shape, [("x", source)], [], [("x", target)])


def loops(
    g: Writer, shape: tuple[int, ...], reads: list[tuple[str, View]], body: list[Line], stores: list[tuple[str, View]]
) -> None:
    """For every row: loops over the axes, and in the last one reads, lines and stores."""
    views = [view for _, view in (*reads, *stores)]
    if len(shape) != 1 and all(v.is_single() or (v.shape == shape and v.is_dense()) for v in views):
        shape, reads, stores = _flat(shape, reads, stores)
    _Nest(g, shape, reads, body, stores).write()


def _flat(shape: tuple[int, ...], reads: Any, stores: Any) -> Any:
    """The same as one loop, where all numbers lie one after the other."""
    count = 1
    for size in shape:
        count *= size

    def flat(view: View) -> View:
        stride = ZERO if view.is_single() and count != 1 else ONE
        return View(view.memory, (count,), (stride,), view.offset)

    return (count,), [(name, flat(v)) for name, v in reads], [(name, flat(v)) for name, v in stores]


class _Nest:
    """The loops of one group, while they are written."""

    def __init__(
        self,
        g: Writer,
        shape: tuple[int, ...],
        reads: list[tuple[str, View]],
        body: list[Line],
        stores: list[tuple[str, View]],
    ) -> None:
        self.g, self.shape, self.reads, self.body, self.stores = g, shape, reads, body, stores
        self.counters = [f"i{d}" for d in range(len(shape) - 1)] + ["j"]
        self.pointers: dict[str, str] = {}

    def in_vectors(self) -> bool:
        """Whether all are real numbers that lie side by side, or one number or truth value for all."""
        views = [view for _, view in (*self.reads, *self.stores)]
        beside = all(v.shape[-1] == 1 or v.strides[-1].value in (0, 1) for v in views)
        stored = all(v.strides[-1].value == 1 for _, v in self.stores)
        lines = all(line.fits and line.type in ("REAL", "uint8_t") for line in self.body)
        types = {v.memory.type for v in views if not (v.memory.type == "uint8_t" and _is_one_for_all(v))}
        return self.shape[-1] != 1 and beside and stored and lines and types == {"REAL"}

    def write(self) -> None:
        g = self.g
        self.open("for (int64_t i = 0; i < m; i++) {")
        stored = {view.row() for _, view in self.stores}
        for k, (_, view) in enumerate((*self.reads, *self.stores)):
            if view.row() not in self.pointers:
                self.pointers[view.row()] = f"q{k}"
                constant = "" if view.row() in stored else "const "
                g.emit(f"{constant}{view.memory.type} *const q{k} = {view.row()};")
        for counter, size in zip(self.counters[:-1], self.shape, strict=False):
            self.open(f"for (int64_t {counter} = 0; {counter} < {g.size(size).name}; {counter}++) {{")
        end = g.size(self.shape[-1]).name
        if self.in_vectors():
            g.emit("int64_t j = 0;")
            self.open(f"for (; j + VL <= {end}; j += VL) {{")
            self.lines("load({})", "store({}, {});")
            self.close()
            self.open(f"if (j < {end}) {{")
            g.emit(f"const int64_t rest = {end} - j;")
            self.lines("load_part({}, rest)", "store_part({}, {}, rest);")
        else:
            self.open(f"for (int64_t j = 0; j < {end}; j++) {{")
            self.lines("", "*({}) = {};")
        for _ in range(len(self.shape) + 1):
            self.close()

    def open(self, line: str) -> None:
        self.g.emit(line)
        self.g.indent += 1

    def close(self) -> None:
        self.g.indent -= 1
        self.g.emit("}")

    def at(self, view: View) -> str:
        return f"{self.pointers[view.row()]} + {view.index(self.counters)}"

    def lines(self, load: str, store: str) -> None:
        """Reads, lines and stores: on vectors with this ``load``, on single numbers without."""
        for name, view in self.reads:
            if not load:
                self.g.emit(f"const {view.memory.type} {name} = *({self.at(view)});")
            elif _is_one_for_all(view):
                of = "vec {} = all" if view.memory.type == "REAL" else "mask {} = every"
                self.g.emit(f"const {of.format(name)}(*({self.at(view)}));")
            else:
                self.g.emit(f"const vec {name} = {load.format(self.at(view))};")
        for line in self.body:
            kind = line.type if not load else "vec" if line.type == "REAL" else "mask"
            self.g.emit(f"const {kind} {line.name} = {line.render(bool(load))};")
        for name, view in self.stores:
            self.g.emit(store.format(self.at(view), name))


def _is_one_for_all(view: View) -> bool:
    """Whether the last axis has one number, for all places of the loop."""
    return view.shape[-1] == 1 or view.strides[-1].value == 0
