"""Pointwise nodes in C: as many as possible in one loop over the numbers of a row, in vectors where that can be."""

from typing import Any

from engram.loops._c_functions import ONLY_INTEGER, ONLY_REAL, aten, expression
from engram.loops._c_loops import Line, copy, loops
from engram.loops._c_views import ZERO, Number, View
from engram.loops._c_writer import Group, Writer
from engram.loops._graph import Node
from engram.loops._schedule import WRITES
from engram.loops._trace import CannotCompile, Ref

LOGICAL = (
    aten.logical_and, aten.logical_or, aten.logical_xor, aten.logical_not,
    aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor, aten.bitwise_not,
)  # fmt: skip
CHOOSES = (aten.where, aten.masked_fill)


def pointwise(g: Writer, item: Node) -> None:
    if item.kind == "pointwise" and _expression(g, item) is None:
        raise CannotCompile(f"{item.info[0]} is not known in C", item.line)
    shape = g.graph.values[item.result].shape
    if g.group is not None and (g.group.shape != shape or any(_is_pending(g, a) for a in item.args)):
        close(g)
    if g.group is None:
        g.group = Group(shape)
    for a in item.args:
        if a not in g.group.made:
            g.in_memory(a)
    g.group.nodes.append(item)
    g.group.made.add(item.result)
    g.group.pending.add(item.result)


def _is_pending(g: Writer, value: int) -> bool:
    """Whether a value waits for the open group to run, and is not one of its registers."""
    return g.group is not None and value in g.group.pending and value not in g.group.made


def _expression(g: Writer, item: Node) -> tuple[str, list[Any]] | None:
    function, args, kwargs = item.info
    if function is aten._to_copy.default:
        return _cast(g.type_of(args[0].number), g.type_of(item.result)), list(args)
    found = expression(function, args, kwargs)
    if found is None:
        return None
    kind = function.overloadpacket
    counted = item.args if kind is not aten.div else ()  # a quotient of integers is real: they are cast
    real = all(g.type_of(v) == "REAL" for v in (*counted, item.result))
    if (kind in ONLY_REAL and not real) or (kind in ONLY_INTEGER and g.type_of(item.result) == "REAL"):
        return None
    template, operands = found
    if kind in LOGICAL:
        if any(g.type_of(a) != "uint8_t" for a in item.args) or not all(isinstance(o, Ref) for o in operands):
            return None
        template = "{0} == 0" if kind in (aten.logical_not, aten.bitwise_not) else template
    return template, operands


def _cast(before: str, after: str) -> str:
    if after == "uint8_t":
        return "{0} != 0"
    if before == "uint8_t":
        return "truth_{f}({0})" if after == "REAL" else "({0} != 0)"
    return f"({after}){{0}}"


def view(g: Writer, item: Node) -> None:
    """The same numbers in another shape: no code, unless a reshape needs a dense copy."""
    value = item.args[0]
    view = g.in_memory(value)
    shape = g.graph.values[item.result].shape
    if item.kind == "reshape" and not view.is_dense():
        dense = g.in_scratch(value)
        copy_to(g, value, dense)
        view = dense
        if g.group is not None and value in g.group.made:
            g.group.pending.add(item.result)
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
    if g.group is not None and value in g.group.pending:
        g.group.pending.add(item.result)


def part(g: Writer, view: View, axis: int, first: int, last: int, step: int) -> View:
    """A slice of a view."""
    stride = view.strides[axis]
    offset = (*view.offset, _times(g, first, stride)) if first and stride.value else view.offset
    shape = (*view.shape[:axis], len(range(first, last, step)), *view.shape[axis + 1 :])
    scaled = stride if step == 1 else _times(g, step, stride)
    return View(view.memory, shape, (*view.strides[:axis], scaled, *view.strides[axis + 1 :]), offset)


def _times(g: Writer, count: int, stride: Number) -> Number:
    """``count`` times a stride; one that is known only at run time (a padded width) has a negative value here."""
    if stride.value > 0:
        return g.size(count * stride.value)
    return Number(f"{g.size(count).name} * {stride.name}", count * stride.value)


def join(g: Writer, item: Node) -> None:
    """Store each piece at its place, from the open group if it is made there; a pad has zeros around it."""
    joined = g.home(item.result)
    g.views[item.result] = joined
    if item.kind == "pad":
        count = g.size(g.graph.values[item.result].size).name
        size = f"{count} * sizeof({joined.memory.type})"
        g.emit(f"for (int64_t i = 0; i < m; i++) memset({joined.row()}, 0, {size});")
        places = [part(g, joined, *item.info)]
    else:
        places, at = [], 0
        for value in item.args:
            size = g.graph.values[value].shape[item.info]
            places.append(part(g, joined, item.info, at, at + size, 1))
            at += size
    for value, place in zip(item.args, places, strict=True):
        kind = g.graph.values[value]
        if not kind.rows:
            raise CannotCompile("a part of a row is shared", item.line)
        if g.type_of(value) != g.type_of(item.result):
            raise CannotCompile("parts of different types are joined", item.line)
        copy_to(g, value, place)
        if g.group is not None and value in g.group.made:
            g.group.pending.add(item.result)


def ready_view(g: Writer, value: int) -> View:
    """Where a value lies, once its numbers are there: if the open group makes it, the group is written first."""
    view = g.in_memory(value)
    if g.group is not None and value in g.group.pending:
        close(g)
    return view


def copy_to(g: Writer, value: int, place: View) -> None:
    """Store a value at a place: in the open group if it is made there, else by a loop of its own."""
    if g.group is not None and value in g.group.made:
        g.group.stores.append((value, place))
    else:
        copy(g, ready_view(g, value), place)


def close(g: Writer) -> None:
    """Write the open group."""
    group = g.group
    if group is None:
        return
    for item in group.nodes:
        if g.uses[item.result] > 0:  # read by somebody outside
            _take_over(g, group, item.result)
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
    reads: list[tuple[str, View]] = []
    for item in nodes:
        for a in item.args:
            if a not in names:
                names[a] = f"x{len(reads)}"
                reads.append((names[a], _padded(g, g.views[a], len(group.shape))))
    body = [Line(names[item.result], g.type_of(item.result), _render(g, item, names), _fits(g, item)) for item in nodes]
    loops(g, group.shape, reads, body, [(names[value], view) for value, view in group.stores])


def _take_over(g: Writer, group: Group, value: int) -> None:
    """Let a buffer that a group makes lie where one lies that only this group reads, number by number."""
    kind = g.graph.values[value]
    if value in g.views or len(kind.shape) < 2 or value in g.program.writes.values():
        return
    read = {a for item in group.nodes for a in item.args if a not in group.made}
    for before, after in g.program.carried:
        view, first = g.views[before], _before_writes(g, after)
        if first != value and first in group.made:  # what the field becomes is to lie there, or it would be copied
            continue
        if before not in read or view.shape != kind.shape or g.type_of(before) != g.type_of(value):
            continue
        shared = [v for v, seen in g.views.items() if seen.memory == view.memory and v != before]
        if g.may_overwrite(before, uses=0) and not read.intersection(shared):
            g.views[value] = view
            group.stores.append((value, view))
            return


def _before_writes(g: Writer, value: int) -> int:
    """A buffer before slots of it were written in its place."""
    makers = {node.result: node for node in g.program.nodes}
    while value in makers and makers[value].kind in WRITES:
        value = makers[value].args[0]
    return value


def _padded(g: Writer, view: View, rank: int) -> View:
    """A view of lower rank broadcasts along the axes it lacks."""
    missing = rank - len(view.shape)
    return View(view.memory, (1,) * missing + view.shape, (ZERO,) * missing + view.strides, view.offset)


def _render(g: Writer, item: Node, names: dict[int, str]) -> Any:
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
    if any(isinstance(o, float) for o in operands):
        common = "REAL"
    truth = g.type_of(item.result) == "uint8_t"

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
        found = template.format(*parts, f="v" if vectors else "s")
        return f"({found}) != 0" if truth and not vectors else found

    return write


def _fits(g: Writer, item: Node) -> bool:
    """Whether a node is right on vectors, where a truth value is 0 or -1: not if it is taken for a number."""
    types = [g.type_of(a) for a in item.args]
    if "uint8_t" not in (*types, g.type_of(item.result)):
        return True
    if item.kind == "fill":
        return False
    function, args, _ = item.info
    kind = function.overloadpacket
    if kind in LOGICAL:
        return set(types) == {"uint8_t"} and all(isinstance(a, Ref) for a in args)
    if kind in CHOOSES:
        return g.type_of(item.result) == "REAL"
    if function is aten._to_copy.default:
        return True
    return set(types) == {"REAL"}  # a comparison


def _constant(g: Writer, value: Any, type: str) -> str:
    return g.number(float(value)) if type == "REAL" else g.size(int(value)).name
