"""The language of a loop: what happens to one row of a batch in one step, and what is shared by all rows and steps.

A *row value* has a shape of its own, without the batch: ``(H)`` is ``(B, H)`` for a batch, ``(K, H)`` a buffer. A
*shared* value (a weight, or what is made of weights) is the same for every row and step. No node
computes one row from another. Rows are added up in one place only, the gradient of a weight, which is a sum over all
rows and steps (:class:`RowSum`).

=============  =====================================================================================================
kind           result
=============  =====================================================================================================
pointwise      ``info`` is the torch operation with its arguments; operands have the rank of the result, or are shared
product        the last axis of a row value times a shared matrix ``(K, N)``
inner          per row: ``(..., n, k)`` times ``(..., k, m)``; either operand may be shared
reshape        the same numbers in another shape; ``permute`` axes in another order; ``expand`` axes of 1 repeated
slice, pad     ``info = axis, first, last, step``, and its gradient: zeros around
cat            ``info`` is the axis
reduce         ``info = name, axes, keep``: sum, amax, amin, prod, any, all, argmax, argmin
gather         ``info = axis``: of a row value and an index; ``scatter_add`` its gradient, added to a base
put            ``info = axis``: a base with other numbers at an index, one per line; a slot of a buffer is written so
fill           a number; ``info`` is it
rowwise        another torch operation that leaves the first axis alone, such as cumsum; ``info`` as for pointwise
shared         an operation on shared values only, as torch ran it
=============  =====================================================================================================
"""

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Value:
    """Shape and dtype of a value, and whether every row has its own (``rows``) or all share it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: bool

    @property
    def size(self) -> int:
        """The numbers of one row."""
        return torch.Size(self.shape).numel()


@dataclass(frozen=True)
class Node:
    """One operation. Only shared ones have several results."""

    kind: str
    args: tuple[int, ...]
    results: tuple[int, ...]
    info: Any = None
    line: str = ""

    @property
    def result(self) -> int:
        return self.results[0]


@dataclass(frozen=True)
class RowSum:
    """A sum over all rows and steps: of ``left`` (the sum of a row value), or of the outer products of two.

    The result, of shape ``(N)``, or ``(K, N)`` for rows ``(..., K)`` and ``(..., N)``, is then seen in ``shape``.
    """

    result: int
    left: int
    right: int | None
    shape: tuple[int, ...]


@dataclass
class Graph:
    """A step, or the gradient of one: values by number, nodes in an order in which they can run."""

    values: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    row_sums: list[RowSum] = field(default_factory=list)
    lines: dict[int, Any] = field(default_factory=dict)
    """What :mod:`._torch` made of single nodes, by their result."""

    def value(self, shape: tuple[int, ...], dtype: torch.dtype, rows: bool) -> int:
        self.values.append(Value(tuple(shape), dtype, rows))
        return len(self.values) - 1

    def add(
        self,
        kind: str,
        args: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        info: Any = None,
        line: str = "",
        rows: bool = True,
    ) -> int:
        """Add a node with one result; returns the number of the result."""
        result = self.value(shape, dtype, rows)
        self.nodes.append(Node(kind, args, (result,), info, line))
        return result
