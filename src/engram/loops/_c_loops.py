"""Loops over the numbers of a row in C: in vectors where all that is read and stored allows it."""

from typing import Any

from engram.loops._c_views import ONE, ZERO, View
from engram.loops._c_writer import Writer


def copy(g: Writer, source: View, target: View) -> None:
    """A loop that only moves numbers, written at once."""
    x = "x"
    loops(g, source.shape, [("read", x, source)], [], [(x, target)])


def loops(
    g: Writer,
    shape: tuple[int, ...],
    reads: list[tuple[str, str, View]],
    body: list[tuple[str, str, Any, bool]],
    stores: list[tuple[str, View]],
) -> None:
    """For every row: loops over the axes, the last one in vectors if all that is read and stored allows it."""
    views = [view for _, _, view in reads] + [view for _, view in stores]
    if len(shape) != 1 and all(v.is_single() or (v.shape == shape and v.is_dense()) for v in views):
        count = 1
        for size in shape:
            count *= size
        shape = (count,)
        flat = {
            id(v): View(v.memory, (count,), (ZERO if v.is_single() and count != 1 else ONE,), v.offset) for v in views
        }
        reads = [(a, name, flat[id(v)]) for a, name, v in reads]
        stores = [(name, flat[id(v)]) for name, v in stores]
        views = list(flat.values())
    last = [ZERO if v.shape[-1] == 1 and shape[-1] != 1 else v.strides[-1] for v in views]
    types = {v.memory.type for v in views}
    vectors = types == {"REAL"} and all(s.value in (0, 1) for s in last) and shape[-1] != 1
    vectors = vectors and all(fits and t in ("REAL", "uint8_t") for _, t, _, fits in body)
    vectors = vectors and all(v.strides[-1].value == 1 for _, v in stores)
    rank = len(shape)
    g.emit("for (int64_t i = 0; i < m; i++) {")
    g.indent += 1
    pointers: dict[str, str] = {}
    for k, view in enumerate(views):
        where = view.row()
        if where not in pointers:
            pointers[where] = f"q{k}"
            constant = "" if k >= len(reads) else "const "
            g.emit(f"{constant}{view.memory.type} *const q{k} = {where};")
    counters = [f"i{d}" for d in range(rank - 1)] + ["j"]
    for d in range(rank - 1):
        g.emit(f"for (int64_t i{d} = 0; i{d} < {g.size(shape[d]).name}; i{d}++) {{")
        g.indent += 1
    end = g.size(shape[-1]).name

    def at(view: View) -> str:
        return f"{pointers[view.row()]} + {view.index(counters)}"

    def write(mode: str) -> None:
        single = mode == "one"
        for _, name, view in reads:
            place, repeated = at(view), view.shape[-1] == 1 or view.strides[-1].value == 0
            if single:
                g.emit(f"const {view.memory.type} {name} = *({place});")
            elif repeated:
                g.emit(f"const vec {name} = all(*({place}));")
            else:
                g.emit(
                    f"const vec {name} = load({place});"
                    if mode == "all"
                    else f"const vec {name} = load_part({place}, left);"
                )
        for name, type, render, _ in body:
            kind = type if single else "vec" if type == "REAL" else "mask"
            g.emit(f"const {kind} {name} = {render(not single)};")
        for name, view in stores:
            if single:
                g.emit(f"*({at(view)}) = {name};")
            else:
                g.emit(f"store({at(view)}, {name});" if mode == "all" else f"store_part({at(view)}, {name}, left);")

    if vectors:
        g.emit("int64_t j = 0;")
        g.emit(f"for (; j + VL <= {end}; j += VL) {{")
        g.indent += 1
        write("all")
        g.indent -= 1
        g.emit("}")
        g.emit(f"if (j < {end}) {{")
        g.indent += 1
        g.emit(f"const int64_t left = {end} - j;")
        write("part")
    else:
        g.emit(f"for (int64_t j = 0; j < {end}; j++) {{")
        g.indent += 1
        write("one")
    for _ in range(rank + 1):
        g.indent -= 1
        g.emit("}")
