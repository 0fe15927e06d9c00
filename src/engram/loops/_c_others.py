"""Nodes that are no loop over single numbers, in C: products, reductions, per-row products, choices."""

import torch

from engram.loops._c_groups import close, ready_view
from engram.loops._c_loops import copy
from engram.loops._c_views import ONE, Number, View
from engram.loops._c_writer import Writer
from engram.loops._graph import Node
from engram.loops._trace import CannotCompile

FIRST = {
    "sum": "0",
    "prod": "1",
    "amax": "-(REAL)__builtin_inf()",
    "amin": "(REAL)__builtin_inf()",
    "any": "0",
    "all": "1",
}
NEXT = {
    "sum": "found += x",
    "prod": "found *= x",
    "amax": "found = max_s(found, x)",
    "amin": "found = min_s(found, x)",
    "any": "found |= x != 0",
    "all": "found &= x != 0",
}


def others(g: Writer, item: Node) -> None:
    match item.kind:
        case "product":
            _product(g, item)
        case "reduce":
            _reduce(g, item)
        case "inner":
            _inner(g, item)
        case "gather" | "scatter_add" | "put":
            _choose(g, item)
        case _:
            raise CannotCompile(f"{item.info[0] if item.info else item.kind} is not known in C", item.line)


def _product(g: Writer, item: Node) -> None:
    value, matrix = item.args
    view, shape = ready_view(g, value), g.graph.values[value].shape
    depth, columns = g.graph.values[matrix].shape
    lead = 1
    for size in shape[:-1]:
        lead *= size
    if not view.is_dense() or "alive_before" in view.memory.pointer:
        dense = g.in_scratch(value)
        copy(g, view, dense)
        view = dense
    panels = g.matrix(matrix)
    wide, many = f"rt->packed_width({g.size(columns).name})", g.size(lead).name
    result = g.scratch(item.result, wide if lead == 1 else f"{many} * {wide}")
    first, second = view.row("0"), view.row("1")
    sizes = f"{g.size(depth).name}, {g.size(columns).name}"
    if lead == 1:
        g.emit(f"times(c, {panels}, m, {sizes}, {first}, ({second}) - ({first}), {result.row('0')}, {wide});")
        strides = tuple(ONE for _ in item_shape(g, item))
    else:
        g.emit(
            f"for (int64_t i = 0; i < m; i++) times(c, {panels}, {many}, {sizes}, {view.row()}, "
            f"{g.size(depth).name}, {result.row()}, {wide});"
        )
        strides_list = [ONE]
        step = 1
        for size in reversed(shape[:-1]):
            strides_list.append(Number(f"{g.size(step).name} * {wide}", -step))  # not known here: never dense
            step *= size
        strides = tuple(reversed(strides_list))
    g.views[item.result] = View(result, item_shape(g, item), strides)


def item_shape(g: Writer, item: Node) -> tuple[int, ...]:
    return g.graph.values[item.result].shape


def _open(g: Writer, names: list[str], shape: tuple[int, ...]) -> None:
    for name, size in zip(names, shape, strict=True):
        g.emit(f"for (int64_t {name} = 0; {name} < {g.size(size).name}; {name}++) {{")
        g.indent += 1


def _close(g: Writer, count: int) -> None:
    for _ in range(count):
        g.indent -= 1
        g.emit("}")


def _rows(g: Writer) -> None:
    g.emit("for (int64_t i = 0; i < m; i++) {")
    g.indent += 1


def _reduce(g: Writer, item: Node) -> None:
    name, axes, keep = item.info
    view = ready_view(g, item.args[0])
    out = g.in_scratch(item.result)
    g.views[item.result] = out
    rank, type = len(view.shape), g.type_of(item.args[0])
    counters = [f"i{d}" for d in range(rank)]
    outer = [d for d in range(rank) if d not in axes]
    to = [counters[d] if d in outer else "0" for d in range(rank) if keep or d in outer]
    _rows(g)
    g.emit(f"const {type} *const x0 = {view.row()};")
    g.emit(f"{out.memory.type} *const y0 = {out.row()};")
    if name == "sum" and type == "REAL" and _beside(view, out, axes):
        _sum_lines(g, view, out, counters, outer, axes, to)
        return
    _open(g, [counters[d] for d in outer], tuple(view.shape[d] for d in outer))
    target = f"y0[{out.index(to)}]"
    fixed = [counters[d] if d in outer else "0" for d in range(rank)]
    inner = View(view.memory, tuple(view.shape[a] for a in axes), tuple(view.strides[a] for a in axes))
    if name == "sum" and type == "REAL" and inner.is_dense():
        count = 1
        for size in inner.shape:
            count *= size
        g.emit(f"{target} = sum_of(x0 + {view.index(fixed)}, {g.size(count).name});")
    elif name in ("argmax", "argmin"):
        _extreme(g, name, view, axes[0], counters, fixed, target, type)
    else:
        integer = type != "REAL" and name in ("amax", "amin")
        first = f"{'INT64_MIN' if name == 'amax' else 'INT64_MAX'}" if integer else FIRST[name]
        g.emit(f"{out.memory.type} found = {first};")
        _open(g, [counters[a] for a in axes], inner.shape)
        g.emit(f"const {type} x = x0[{view.index(counters)}];")
        sign = ">" if name == "amax" else "<"
        g.emit(f"found = x {sign} found ? x : found;" if integer else f"{NEXT[name]};")
        _close(g, len(axes))
        g.emit(f"{target} = found;")
    _close(g, len(outer) + 1)


def _beside(view: View, out: View, axes: tuple[int, ...]) -> bool:
    """Whether lines of neighbouring numbers are added up, into one line."""
    last = len(view.shape) - 1
    return last not in axes and view.shape[-1] > 1 and view.strides[-1] is ONE and out.strides[-1] is ONE


def _sum_lines(
    g: Writer, view: View, out: View, counters: list[str], outer: list[int], axes: tuple[int, ...], to: list[str]
) -> None:
    """Sums over axes before the last, in vectors of neighbouring numbers, each sum in the order of its axes."""
    *before, last = outer
    _open(g, [counters[d] for d in before], tuple(view.shape[d] for d in before))
    x, y = f"x0 + {view.index(counters)}", f"y0 + {out.index(to)}"
    _vectors(g, counters[last], view.shape[last])
    for load, store in (("load({})", "store({}, {});"), ("load_part({}, rest)", "store_part({}, {}, rest);")):
        g.emit("vec found = all(0);")
        _open(g, [counters[a] for a in axes], tuple(view.shape[a] for a in axes))
        g.emit(f"found += {load.format(x)};")
        _close(g, len(axes))
        g.emit(store.format(y, "found"))
        _rest(g, counters[last], view.shape[last], load)
    _close(g, len(before) + 1)


def _vectors(g: Writer, counter: str, size: int) -> None:
    """Open a loop over vectors; :func:`_rest` then opens, and closes, what is left at its end."""
    g.emit(f"int64_t {counter} = 0;")
    g.emit(f"for (; {counter} + VL <= {g.size(size).name}; {counter} += VL) {{")
    g.indent += 1


def _rest(g: Writer, counter: str, size: int, load: str) -> None:
    _close(g, 1)
    if "part" not in load:
        end = g.size(size).name
        g.emit(f"if ({counter} < {end}) {{")
        g.indent += 1
        g.emit(f"const int64_t rest = {end} - {counter};")


def _extreme(
    g: Writer, name: str, view: View, axis: int, counters: list[str], fixed: list[str], target: str, type: str
) -> None:
    """The first place of the largest (smallest) number; a NaN counts as both, as in torch."""
    sign = ">" if name == "argmax" else "<"
    g.emit(f"{type} best = x0[{view.index(fixed)}];")
    g.emit("int64_t found = 0;")
    _open(g, [counters[axis]], (view.shape[axis],))
    g.emit(f"const {type} x = x0[{view.index(counters)}];")
    g.emit(f"if (x {sign} best || (x != x && best == best)) best = x, found = {counters[axis]};")
    _close(g, 1)
    g.emit(f"{target} = found;")


def _inner(g: Writer, item: Node) -> None:
    """out[..., r, c] = sum_k a[..., r, k] b[..., k, c]."""
    a, b = ready_view(g, item.args[0]), ready_view(g, item.args[1])
    out = g.in_scratch(item.result)
    g.views[item.result] = out
    lead = len(out.shape) - 2
    if any(v.shape[:-2] != out.shape[:-2] for v in (a, b)):
        raise CannotCompile("a per-row product broadcasts", item.line)
    outer = [f"i{d}" for d in range(lead)]
    (n, depth), many = a.shape[-2:], out.shape[-1]
    _rows(g)
    for name, view in (("x0", a), ("z0", b)):
        g.emit(f"const REAL *const {name} = {view.row()};")
    g.emit(f"REAL *const y0 = {out.row()};")
    _open(g, [*outer, "r"], (*out.shape[:-2], n))
    if (a.strides[-1] is ONE or depth == 1) and (b.strides[-2] is ONE or depth == 1):  # columns lie in one piece each
        _open(g, ["j"], (many,))
        place, x, z = out.index([*outer, "r", "j"]), a.index([*outer, "r", "0"]), b.index([*outer, "0", "j"])
        g.emit(f"y0[{place}] = dot(x0 + {x}, z0 + {z}, {g.size(depth).name});")
        _close(g, lead + 3)
        return
    place, x = f"y0 + {out.index([*outer, 'r', 'j'])}", f"x0[{a.index([*outer, 'r', 'k'])}]"
    z = f"z0 + {b.index([*outer, 'k', 'j'])}"
    if b.strides[-1] is not ONE and many != 1:
        _open(g, ["j"], (many,))
        g.emit("REAL found = 0;")
        _open(g, ["k"], (depth,))
        g.emit(f"found += {x} * *({z});")
        _close(g, 1)
        g.emit(f"*({place}) = found;")
        _close(g, lead + 3)
        return
    _vectors(g, "j", many)
    for load, store in (("load({})", "store({}, {});"), ("load_part({}, rest)", "store_part({}, {}, rest);")):
        g.emit("vec found = all(0);")
        _open(g, ["k"], (depth,))
        g.emit(f"found += all({x}) * {load.format(z)};")
        _close(g, 1)
        g.emit(store.format(place, "found"))
        _rest(g, "j", many, load)
    _close(g, lead + 2)


def _choose(g: Writer, item: Node) -> None:
    """out[.., j, ..] = x[.., index[.., j, ..], ..], or out = base, out[.., index, ..] = x (or += x)."""
    axis, scatter = item.info, item.kind != "gather"
    base, index = ready_view(g, item.args[0]), ready_view(g, item.args[1])
    source = ready_view(g, item.args[2]) if scatter else base
    out = g.in_scratch(item.result)
    if scatter:
        out = _overwritten(g, item.args[0], base, out)
    g.views[item.result] = out
    counters = [f"i{d}" for d in range(len(index.shape))]
    chosen = ["at" if d == axis else counter for d, counter in enumerate(counters)]
    kind = g.type_of(item.args[2] if scatter else item.args[0])
    _rows(g)
    g.emit(f"const {kind} *const x0 = {source.row()};")
    g.emit(f"const int64_t *const n0 = {index.row()};")
    g.emit(f"{out.memory.type} *const y0 = {out.row()};")
    size = g.size((out if scatter else source).shape[axis]).name
    if _is_one_slot(index, axis):
        g.emit("const int64_t at = *n0;")
        g.emit(f"if (at < 0 || at >= {size}) {{ free(memory); return 2; }}")
        _slot(g, item, index.shape, source, out)
        _close(g, 1)
        return
    _open(g, counters, index.shape)
    g.emit(f"const int64_t at = n0[{index.index(counters)}];")
    g.emit(f"if (at < 0 || at >= {size}) {{ free(memory); return 2; }}")
    if scatter:
        sign = "=" if item.kind == "put" else "+="
        g.emit(f"y0[{out.index(chosen)}] {sign} x0[{source.index(counters)}];")
    else:
        g.emit(f"y0[{out.index(counters)}] = x0[{source.index(chosen)}];")
    _close(g, len(counters) + 1)


def _overwritten(g: Writer, value: int, base: View, out: View) -> View:
    """Where a changed copy of a value is made: in its own place, if nobody reads it again."""
    close(g)  # what waits to run may read it
    if base.is_dense() and g.may_overwrite(value):
        return base
    copy(g, base, out)
    return out


def _is_one_slot(index: View, axis: int) -> bool:
    """Whether an index has one number for a whole row."""
    lines = zip(index.shape, index.strides, strict=True)
    return axis == 0 and all(size == 1 or stride.value == 0 for size, stride in lines)


def _slot(g: Writer, item: Node, shape: tuple[int, ...], source: View, out: View) -> None:
    """The numbers of slot ``at``: read, written or added to."""
    buffer, here = (source, out) if item.kind == "gather" else (out, source)
    whole = shape[1:] == buffer.shape[1:] and _line(buffer).is_dense() and _line(here).is_dense()
    slot, noted = f"at * {buffer.strides[0].name}", g.program.puts.get(item.result)
    noted = noted if noted is not None and noted[0] in g.program.changes else None
    if noted is not None and not whole:
        raise CannotCompile("a slot of a buffer is seen in another order than it lies", item.line)
    if item.kind == "scatter_add" or not whole:
        counters = ["0", *(f"i{d}" for d in range(1, len(shape)))]
        _open(g, counters[1:], shape[1:])
        x, y = source.index(counters), out.index(counters)
        sign = "=" if item.kind == "put" else "+="
        g.emit(f"y0[{y}] = x0[{slot} + {x}];" if item.kind == "gather" else f"y0[{slot} + {y}] {sign} x0[{x}];")
        _close(g, len(shape) - 1)
        return
    size = f"{g.size(torch.Size(shape[1:]).numel()).name} * sizeof({out.memory.type})"
    if item.kind == "gather":
        g.emit(f"memcpy(y0, x0 + {slot}, {size});")
        return
    if noted is not None:
        field, n = noted
        slots, old, width, count = g.noted_slots(field, item.args[0])
        g.emit(f"if ({slots}) {{")
        g.emit(f"  const int changed = memcmp(y0 + {slot}, x0, {size}) != 0;")
        g.emit(f"  {slots}[(row + i) * {count} + {n}] = changed ? (int32_t)at : -1;")
        g.emit(f"  if (changed) memcpy({old} + ((row + i) * {count} + {n}) * {width}, y0 + {slot}, {size});")
        g.emit("}")
    g.emit(f"memcpy(y0 + {slot}, x0, {size});")


def _line(view: View) -> View:
    """One slot of a buffer."""
    return View(view.memory, view.shape[1:], view.strides[1:], view.offset)
