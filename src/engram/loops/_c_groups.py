"""Pointwise nodes in C: as many as possible in one loop over the numbers of a row, in vectors where that can be."""

from typing import Any

from engram.loops._c_functions import ONLY_REAL, ONLY_WHOLE, aten, expression
from engram.loops._c_others import others
from engram.loops._c_views import ONE, ZERO, Memory, View
from engram.loops._generate import Generator, Group
from engram.loops._graph import Node
from engram.loops._trace import CannotCompile, Ref

CHOOSES = (aten.where, aten.masked_fill)


def node(g: Generator, item: Node) -> None:
    """Write a node, now or, if it is pointwise, with its group."""
    if item.kind == "pointwise" or item.kind == "fill":
        _pointwise(g, item)
    elif item.kind in ("reshape", "permute", "expand", "slice"):
        _view(g, item)
    elif item.kind in ("cat", "pad"):
        _join(g, item)
    else:
        others(g, item)


def _pointwise(g: Generator, item: Node) -> None:
    if item.kind == "pointwise" and _expression(g, item) is None:
        raise CannotCompile(f"{item.info[0]} is not known in C", item.line)
    shape = g.graph.values[item.result].shape
    if g.group is not None and (g.group.shape != shape or any(_hidden(g, a) for a in item.args)):
        close(g)
    if g.group is None:
        g.group = Group(shape)
    for a in item.args:
        if a not in g.group.made:
            g.in_memory(a)
    g.group.nodes.append(item)
    g.group.made.add(item.result)
    g.group.behind.add(item.result)


def _hidden(g: Generator, value: int) -> bool:
    """Whether a value waits for the open group and is not one of its registers."""
    return g.group is not None and value in g.group.behind and value not in g.group.made


def _expression(g: Generator, item: Node) -> tuple[str, list[Any]] | None:
    function, args, kwargs = item.info
    if function is aten._to_copy.default:
        return _cast(g.type_of(args[0].number), g.type_of(item.result)), list(args)
    found = expression(function, args, kwargs)
    if found is None:
        return None
    kind = function.overloadpacket
    counted = item.args if kind is not aten.div else ()  # a quotient is real also of whole numbers, which are cast
    real = all(g.type_of(v) == "REAL" for v in (*counted, item.result))
    if (kind in ONLY_REAL and not real) or (kind in ONLY_WHOLE and g.type_of(item.result) == "REAL"):
        return None
    template, operands = found
    if kind in (aten.logical_not, aten.bitwise_not):
        if g.type_of(item.args[0]) != "uint8_t":
            return None
        template = "{0} == 0"
    return template, operands


def _cast(before: str, after: str) -> str:
    if after == "uint8_t":
        return "{0} != 0"
    if before == "uint8_t":
        return "truth_{f}({0})" if after == "REAL" else "({0} != 0)"
    return f"({after}){{0}}"


def _view(g: Generator, item: Node) -> None:
    """The same numbers seen otherwise: no code, unless a reshape needs them one after the other."""
    value = item.args[0]
    view = g.in_memory(value)
    shape = g.graph.values[item.result].shape
    if item.kind == "reshape" and not view.is_dense():
        dense = g.in_scratch(value)
        g.copy_to(value, dense)
        view = dense
        if g.group is not None and value in g.group.made:
            g.group.behind.add(item.result)
    match item.kind:
        case "reshape":
            found = g.dense(view.memory, shape)
            found = View(found.memory, found.shape, found.strides, view.offset)
        case "permute":
            found = View(view.memory, shape, tuple(view.strides[a] for a in item.info), view.offset)
        case "expand":
            strides = zip(view.strides, view.shape, shape, strict=True)
            found = View(
                view.memory, shape, tuple(ZERO if a == 1 and b != 1 else s for s, a, b in strides), view.offset
            )
        case _:
            found = part(g, view, *item.info)
    g.views[item.result] = found
    if g.group is not None and value in g.group.behind:
        g.group.behind.add(item.result)


def part(g: Generator, view: View, axis: int, first: int, last: int, step: int) -> View:
    """A slice of a view."""
    stride = view.strides[axis]
    offset = (*view.offset, g.size(first * stride.value)) if first and stride.value else view.offset
    shape = (*view.shape[:axis], len(range(first, last, step)), *view.shape[axis + 1 :])
    scaled = stride if step == 1 else g.size(stride.value * step)
    return View(view.memory, shape, (*view.strides[:axis], scaled, *view.strides[axis + 1 :]), offset)


def _join(g: Generator, item: Node) -> None:
    """Each piece is stored at its place, from the open group if it is made there; around a pad lie zeros."""
    whole = g.home(item.result)
    g.views[item.result] = whole
    if item.kind == "pad":
        count = g.size(g.graph.values[item.result].size).name
        size = f"{count} * sizeof({whole.memory.type})"
        g.emit(f"for (int64_t i = 0; i < m; i++) memset({whole.row()}, 0, {size});")
        places = [part(g, whole, *item.info)]
    else:
        places, at = [], 0
        for value in item.args:
            size = g.graph.values[value].shape[item.info]
            places.append(part(g, whole, item.info, at, at + size, 1))
            at += size
    for value, place in zip(item.args, places, strict=True):
        kind = g.graph.values[value]
        if not kind.rows:
            raise CannotCompile("a part of a row is shared", item.line)
        if g.type_of(value) != g.type_of(item.result):
            raise CannotCompile("parts of different types are joined", item.line)
        g.copy_to(value, place)
        if g.group is not None and value in g.group.made:
            g.group.behind.add(item.result)


def copy(g: Generator, source: View, target: View) -> None:
    """A loop that only moves numbers, written at once."""
    x = "x"
    _loops(g, source.shape, [("read", x, source)], [], [(x, target)])


def close(g: Generator) -> None:
    """Write the open group."""
    group = g.group
    if group is None:
        return
    for item in group.nodes:
        if g.uses[item.result] > 0:  # read by somebody outside
            g.in_memory(item.result)
    g.group = None
    if not group.stores:
        return
    wanted = {value for value, _ in group.stores}
    nodes = []
    for item in reversed(group.nodes):
        if item.result in wanted:
            nodes.append(item)
            wanted.update(a for a in item.args if a in group.made)
    nodes.reverse()
    names = {item.result: f"v{k}" for k, item in enumerate(nodes)}
    reads: list[tuple[str, str, View]] = []
    for item in nodes:
        for a in item.args:
            if a not in names:
                names[a] = f"x{len(reads)}"
                reads.append(("read", names[a], _padded(g, g.views[a], len(group.shape))))
    body = [(names[item.result], g.type_of(item.result), _render(g, item, names)) for item in nodes]
    _loops(g, group.shape, reads, body, [(names[value], view) for value, view in group.stores])


def _padded(g: Generator, view: View, rank: int) -> View:
    """A view of lower rank broadcasts along the axes it lacks."""
    missing = rank - len(view.shape)
    return View(view.memory, (1,) * missing + view.shape, (ZERO,) * missing + view.strides, view.offset)


def _render(g: Generator, item: Node, names: dict[int, str]) -> Any:
    """The expression of a node, as a function of whether it is on vectors."""
    if item.kind == "fill":
        return lambda vectors: ("all({})" if vectors else "{}").format(_constant(g, item.info, g.type_of(item.result)))
    template, operands = _expression(g, item) or ("", [])
    chooses = item.info[0].overloadpacket in CHOOSES
    types = [g.type_of(o.number) if isinstance(o, Ref) else None for o in operands]
    results = [t for k, t in enumerate(types) if t is not None and not (chooses and k == 0)]
    results += [] if g.type_of(item.result) == "uint8_t" else [g.type_of(item.result)]
    common = "REAL" if "REAL" in results else "int64_t" if {"int64_t", "int32_t"} & set(results) else "uint8_t"
    if item.info[0] is aten._to_copy.default:
        common = types[0] or "REAL"
    if common == "uint8_t" and any(isinstance(o, float) for o in operands):
        common = "REAL"

    def constant(o: Any) -> str:
        return _constant(g, o, common)

    fixed = [None if isinstance(o, Ref) else constant(o) for o in operands]

    def write(vectors: bool) -> str:
        parts = []
        for k, operand in enumerate(operands):
            if not isinstance(operand, Ref):
                parts.append(f"all({fixed[k]})" if vectors and common == "REAL" else str(fixed[k]))
                continue
            name, own = names[operand.number], types[k]
            if own == "uint8_t" and common == "REAL" and not (chooses and k == 0):
                name = f"truth_{'v' if vectors else 's'}({name})"
            elif own in ("int64_t", "int32_t") and common == "REAL":
                name = f"(REAL){name}"
            parts.append(name)
        return template.format(*parts, f="v" if vectors else "s")

    return write


def _constant(g: Generator, value: Any, type: str) -> str:
    return g.number(float(value)) if type == "REAL" else g.size(int(value)).name


def _loops(
    g: Generator,
    shape: tuple[int, ...],
    reads: list[tuple[str, str, View]],
    body: list[tuple[str, str, Any]],
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
    vectors = vectors and all(t in ("REAL", "uint8_t") for _, t, _ in body)
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
        for name, type, render in body:
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


__all__ = ["Memory", "close", "copy", "node", "part"]
