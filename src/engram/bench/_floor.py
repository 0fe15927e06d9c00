"""The floor of a cell: the matrix products of its forward and backward pass, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from engram.bench._size import Size
from engram.loops import compiled_cell
from engram.nn import Recurrent

CHUNK_BYTES = 4 * 2**20
"""Bytes of the operands of a product over the rows of many steps, so that they fit the cache."""


@dataclass(frozen=True)
class Products:
    """The products of one row of the batch in one step.

    Args:
        forward, backward: of the two loops, each (r, k, n): r rows ``(k)`` times ``(k, n)``.
        rows: outside the loops, for the rows of many steps at once, in the same form.
        sums: the gradients of weights: r rows ``(m)`` and ``(n)`` give a matrix ``(m, n)``, summed over all steps.
    """

    forward: list[tuple[int, int, int]]
    backward: list[tuple[int, int, int]]
    rows: list[tuple[int, int, int]]
    sums: list[tuple[int, int, int]]

    def flops(self, size: Size) -> int:
        """Additions and multiplications of a training step."""
        each = (*self.forward, *self.backward, *self.rows, *self.sums)
        return 2 * size.T * size.B * sum(r * a * b for r, a, b in each)


def products_of(layer: Recurrent) -> Products | None:
    """The products of a layer with one cell; None if its step cannot be compiled or has no product with the state.

    Taken from the plan of its loop. Products of the input alone are done for many steps at once, which takes the least
    time. The gradient of the input is not counted: training the weights does not need it.
    """
    (cell,) = layer.cells
    loop = compiled_cell(cell)
    if loop.traced is None:
        return None
    plan = loop.variant(hoist=True, rebuild=True).plan
    if plan.backward is None:
        return None
    values, outgoing = plan.graph.values, {node.result: node for node in plan.outgoing}

    def shape(node: Any) -> tuple[int, int, int]:
        rows, matrix = (values[a].shape for a in node.args[:2])  # a third one is added
        return (torch.Size(rows[:-1]).numel(), *matrix)

    def outer(left: int, right: int) -> tuple[int, int, int]:
        a, b = values[left].shape, values[right].shape
        return (torch.Size(a[:-1]).numel(), a[-1], b[-1])

    forward = [shape(node) for node in plan.forward.nodes if node.kind == "product"]
    backward = [shape(node) for node in plan.backward.nodes if node.kind == "product"]
    if not forward:
        return None
    pairs = [(row_sum.left, row_sum.right) for row_sum in plan.row_sums if row_sum.right is not None]
    wanted, needed = [value for pair in pairs for value in pair], set()
    while wanted:
        value = wanted.pop()
        if value in outgoing and value not in needed:
            needed.add(value)
            wanted += outgoing[value].args
    at_once = [node for node in (*plan.hoisted, *(outgoing[value] for value in needed)) if node.kind == "product"]
    return Products(forward, backward, [shape(node) for node in at_once], [outer(*pair) for pair in pairs])


def floor(products: Products, size: Size) -> Callable[[], None]:
    """The products that every implementation needs, in memory that is allocated before.

    Each product of the loops runs once per step, those over the rows of many steps in chunks.
    """
    total = size.T * size.B
    loops = [[_operands(r * size.B, k, n) for r, k, n in each] for each in (products.forward, products.backward)]
    chunked = []
    for r, k, n in products.rows:
        rows = _rows(total, r * (k + n))
        chunked.append((r * total, r * rows, *_operands(r * rows, k, n)))
    sums = []
    for r, m, n in products.sums:
        rows = _rows(total, r * (m + n))
        left, right = torch.randn(r * rows, m), torch.randn(r * rows, n)
        sums.append((r * total, r * rows, left.t(), right, torch.empty(m, n)))

    def call() -> None:
        for loop in loops:
            for _ in range(size.T):
                for a, b, out in loop:
                    torch.mm(a, b, out=out)
        for count, most, a, b, out in chunked:
            for first in range(0, count, most):
                rows = min(most, count - first)
                torch.mm(a[:rows], b, out=out[:rows])
        for count, most, a, b, out in sums:
            for first in range(0, count, most):
                rows = min(most, count - first)
                torch.mm(a[:, :rows], b[:rows], out=out)

    return call


def _operands(m: int, k: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)


def _rows(total: int, width: int) -> int:
    """How many rows of this width fit into a chunk."""
    return max(1, min(total, CHUNK_BYTES // (4 * width)))
