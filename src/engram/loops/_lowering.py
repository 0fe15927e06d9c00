"""What the rules of lowering work with: where the batch is in each tensor of a record, and the graph that grows.

Every tensor of a record either has the batch on exactly one axis, possibly folded with another (``(B*K, H)``), or does
not depend on the rows. Each operation is seen on one row; one that takes rows together is refused, except for sums in
the gradient, which become :class:`RowSum`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engram.loops._graph import Graph, Node, RowSum, Value
from engram.loops._trace import BATCHES, CannotCompile, Record, Ref

aten = torch.ops.aten


@dataclass(frozen=True)
class Place:
    """Where the batch is in a tensor: its axis, and how many entries of it belong to one row."""

    axis: int
    fold: int

    def row(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one row."""
        own = (self.fold,) if self.fold > 1 else ()
        return (*shape[: self.axis], *own, *shape[self.axis + 1 :])


class Lowering:
    """Lowers the calls of a record, one after the other, into ``graph``."""

    def __init__(self, small: Record, large: Record) -> None:
        self.small, self.large = small, large
        self.graph = Graph()
        self.known: dict[int, int] = {}
        """From tensors of the record to values of the graph."""
        self.gradient = False
        self.line = ""
        self.step_nodes = 0
        """The number of nodes of the step; the nodes after them are those of its gradient."""

    # What is known of a tensor of the record.

    def shape(self, n: int) -> tuple[int, ...]:
        return tuple(self.small.tensors[n].shape)

    def place(self, n: int) -> Place | None:
        """Where the batch is; None if the tensor has none."""
        small, large = self.shape(n), tuple(self.large.tensors[n].shape)
        differing = [d for d, (a, b) in enumerate(zip(small, large, strict=True)) if a != b]
        if not differing:
            return None
        fold = (large[differing[0]] - small[differing[0]]) // (BATCHES[1] - BATCHES[0])
        sizes = (small[differing[0]], large[differing[0]])
        if len(differing) > 1 or sizes != (BATCHES[0] * fold, BATCHES[1] * fold):
            raise self.error("rows of the batch are mixed")
        return Place(differing[0], fold)

    def error(self, reason: str) -> CannotCompile:
        return CannotCompile(("in its gradient " if self.gradient else "") + reason, self.line)

    def value(self, n: int) -> Value:
        return self.graph.values[self.known[n]]

    def maker(self, value: int) -> Node | None:
        """The node that a value of the graph is made by."""
        return next((node for node in reversed(self.graph.nodes) if value in node.results), None)

    def is_rows(self, n: int) -> bool:
        return self.value(n).rows

    def enter(self, n: int) -> int:
        """A tensor that comes from outside."""
        tensor, place = self.small.tensors[n], self.place(n)
        shape = self.shape(n) if place is None else place.row(self.shape(n))
        if n not in self.known:
            self.known[n] = self.graph.value(shape, tensor.dtype, place is not None)
        return self.known[n]

    # Nodes.

    def dtype(self, n: int) -> torch.dtype:
        return self.small.tensors[n].dtype

    def reshape(self, value: int, shape: tuple[int, ...]) -> int:
        was = self.graph.values[value]
        if was.shape == shape:
            return value
        return self.graph.add("reshape", (value,), shape, was.dtype, shape, self.line, was.rows)

    def op(self, function: Any, *args: Any, shape: tuple[int, ...] | None = None, dtype: Any = None) -> int:
        """A pointwise node; values are given as :class:`Ref`, and broadcast as rows do."""
        refs = [self.graph.values[a.number] for a in args if isinstance(a, Ref)]
        shape = np.broadcast_shapes(*(v.shape for v in refs)) if shape is None else shape  # torch's imports sympy
        dtype = dtype or next(v.dtype for v in refs)
        numbers = tuple(a.number for a in args if isinstance(a, Ref))
        rows = any(v.rows for v in refs)
        return self.graph.add("pointwise", numbers, shape, dtype, (function, args, {}), self.line, rows)

    def reduce(self, name: str, value: int, axes: tuple[int, ...], keep: bool, dtype: Any = None) -> int:
        was = self.graph.values[value]
        axes = tuple(sorted(a % max(len(was.shape), 1) for a in axes)) if was.shape else ()
        if not axes:
            return value
        shape = tuple(1 if d in axes else s for d, s in enumerate(was.shape) if keep or d not in axes)
        return self.graph.add("reduce", (value,), shape, dtype or was.dtype, (name, axes, keep), self.line)

    def slice(self, value: int, axis: int, first: int, last: int, step: int = 1) -> int:
        was = self.graph.values[value]
        if (first, last, step) == (0, was.shape[axis], 1):
            return value
        maker = self.maker(value)
        if step == 1 and maker is not None and maker.kind == "cat" and maker.info == axis:
            at = 0
            for part in maker.args:  # what lies in one of the parts is taken from there
                kind = self.graph.values[part]
                if at <= first and last <= at + kind.shape[axis] and kind.dtype == was.dtype:
                    return self.slice(part, axis, first - at, last - at)
                at += kind.shape[axis]
        shape = (*was.shape[:axis], len(range(first, last, step)), *was.shape[axis + 1 :])
        return self.graph.add("slice", (value,), shape, was.dtype, (axis, first, last, step), self.line)

    def sum_rows(self, n: int, left: int, right: int | None = None) -> None:
        """The tensor n of the record is a sum over rows."""
        if not self.gradient:
            raise self.error("rows of the batch are mixed")
        tensor = self.small.tensors[n]
        if not tensor.numel():
            raise self.error("a weight without any number")
        self.known[n] = self.graph.value(tuple(tensor.shape), tensor.dtype, False)
        self.graph.row_sums.append(RowSum(self.known[n], left, right, tuple(tensor.shape)))

    def check(self, n: int) -> None:
        """A result must have the shape that torch gave it: a rule that is wrong is found here."""
        place, value = self.place(n), self.value(n)
        expected = self.shape(n) if place is None else place.row(self.shape(n))
        if value.shape != expected or value.rows != (place is not None):
            raise self.error(f"a row of the result should have the shape {expected}, not {value.shape}")

    def aligned(self, n: int, rank: int, place: Place) -> int:
        """The value of tensor n with the rank that it has beside a result of this rank and place of the batch."""
        shape, own = self.shape(n), self.place(n)
        padded = (1,) * (rank - len(shape)) + shape
        if own is not None:
            if own.axis + rank - len(shape) != place.axis or own.fold != place.fold:
                raise self.error("rows of the batch are mixed")
            return self.reshape(self.known[n], place.row(padded))
        if rank > len(shape) and place.axis < rank - len(shape) and place.fold == 1:
            return self.known[n]  # lies behind the batch: broadcasts as it is
        if padded[place.axis] != 1:
            raise self.error("rows of the batch are treated differently by their position")
        whole = (*padded[: place.axis], *((1,) if place.fold > 1 else ()), *padded[place.axis + 1 :])
        return self.reshape(self.known[n], whole)

    def axis(self, n: int, axis: int) -> int:
        """An axis of a tensor as one of its rows."""
        place = self.place(n)
        axis %= max(len(self.shape(n)), 1)
        if place is None:
            return axis
        if axis == place.axis:
            raise self.error("rows of the batch are mixed")
        return axis if axis < place.axis else axis - (place.fold == 1)
