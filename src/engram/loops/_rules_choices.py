"""Rules of operations that pick numbers by an index, and of those that torch itself runs row by row."""

import torch

from engram.loops._lowering import Lowering, Place
from engram.loops._rules import rule
from engram.loops._rules_products import shared_call
from engram.loops._trace import Call, Ref

aten = torch.ops.aten


@rule(aten.gather.default)
def gather(w: Lowering, call: Call) -> None:
    n, (source, axis, index) = call.results[0], call.args[:3]
    axis = w.axis(source.number, axis)
    if w.place(index.number) != w.place(source.number):
        raise w.error("rows of the batch are mixed")
    args, shape = (w.known[source.number], w.known[index.number]), w.value(index.number).shape
    w.known[n] = w.graph.add("gather", args, shape, w.dtype(n), axis, w.line)


@rule(aten.scatter_add.default)
def scatter_add(w: Lowering, call: Call) -> None:
    n, (base, axis, index, source) = call.results[0], call.args
    if not {w.place(base.number), w.place(index.number), w.place(source.number)} == {Place(0, 1)}:
        raise w.error("rows of the batch are mixed")
    args = (w.known[base.number], w.known[index.number], w.known[source.number])
    shape, axis = w.value(base.number).shape, w.axis(base.number, axis)
    w.known[n] = w.graph.add("scatter_add", args, shape, w.dtype(n), axis, w.line)


@rule(aten.scatter.src, aten.scatter.value)
def scatter(w: Lowering, call: Call) -> None:
    """One place per line: a slot of a buffer that is written, or emptied in the gradient of that."""
    n, (base, axis, index, source) = call.results[0], call.args
    places = {w.place(ref.number) for ref in (base, index, source) if isinstance(ref, Ref)}
    if places != {Place(0, 1)}:
        raise w.error("rows of the batch are mixed")
    axis = w.axis(base.number, axis)
    where = w.known[index.number]
    if w.graph.values[where].shape[axis] != 1:
        raise w.error("scatter is known for one place per row, whose order cannot matter; use torch.where")
    if isinstance(source, Ref):
        what = w.known[source.number]
        for at, (size, wanted) in enumerate(zip(w.graph.values[what].shape, w.graph.values[where].shape, strict=True)):
            what = w.slice(what, at, 0, wanted) if size != wanted else what
    else:
        what = w.graph.add("fill", (), w.graph.values[where].shape, w.dtype(n), source, w.line)
    args = (w.known[base.number], where, what)
    w.known[n] = w.graph.add("put", args, w.value(base.number).shape, w.dtype(n), axis, w.line)


@rule(aten.index.Tensor, aten.index_put.default)
def index(w: Lowering, call: Call) -> None:
    """``h[:, numbers]``, with the same numbers for every row, and its gradient."""
    n, source, where = call.results[0], call.args[0].number, call.args[1]
    given = [(axis, ref) for axis, ref in enumerate(where) if ref is not None]
    if len(given) != 1 or w.is_rows(given[0][1].number) or len(w.shape(given[0][1].number)) != 1:
        raise w.error("an index with tensors is known for one axis and the same numbers in every row; use torch.gather")
    axis, numbers = w.axis(source, given[0][0]), w.known[given[0][1].number]
    shape = w.value(source).shape
    numbers = shared_call(w, aten.remainder.Scalar, numbers, shape[axis])  # from the end, if negative
    picked = (*shape[:axis], w.graph.values[numbers].shape[0], *shape[axis + 1 :])
    flat = w.graph.values[numbers].shape[0]
    places = w.reshape(numbers, tuple(flat if d == axis else 1 for d in range(len(shape))))
    places = w.graph.add("expand", (places,), picked, torch.int64, picked, w.line)
    if call.function is aten.index.Tensor:
        w.known[n] = w.graph.add("gather", (w.known[source], places), picked, w.dtype(n), axis, w.line)
        return
    accumulate = call.args[3] if len(call.args) > 3 else False
    if not accumulate:
        raise w.error("an index may be read, not written; use torch.where")
    base, added = w.known[source], w.reshape(w.known[call.args[2].number], picked)
    w.known[n] = w.graph.add("scatter_add", (base, places, added), shape, w.dtype(n), axis, w.line)


ROWWISE = (
    aten.cumsum.default,
    aten.cumprod.default,
    aten.flip.default,
    aten.logsumexp.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.real.default if hasattr(aten.real, "default") else aten.view_as_real.default,
)


@rule(*ROWWISE)
def rowwise(w: Lowering, call: Call) -> None:
    """torch's operation as it is, on rows that lie along the first axis."""
    n, source = call.results[0], call.args[0].number
    if w.place(source) != Place(0, 1) or w.place(n) != Place(0, 1):
        raise w.error("rows of the batch are mixed")
    dims = call.args[1] if len(call.args) > 1 else ()
    for d in dims if isinstance(dims, (tuple, list)) else (dims,):
        w.axis(source, d)
    dims = [d % len(w.shape(source)) for d in dims] if isinstance(dims, (tuple, list)) else dims % len(w.shape(source))
    rest = (dims, *call.args[2:]) if len(call.args) > 1 else ()
    info = (call.function, (Ref(w.known[source]), *rest), call.kwargs)
    shape = w.shape(n)[1:]
    w.known[n] = w.graph.add("rowwise", (w.known[source],), shape, w.dtype(n), info, w.line)
