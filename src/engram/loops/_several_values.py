"""What the sums over rows of several models read, for all members at once: the first axis is the member."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from engram.loops._graph import RowSum
from engram.loops._layout import Arrays, Span
from engram.loops._program import Plan, Source
from engram.loops._run import RowValues
from engram.loops._several_products import Work, matmuls, several_column_sums


def of_member(arrays: Arrays, e: int) -> Arrays:
    """The arrays of one member."""
    tensors = {name: tensor[e] for name, tensor in arrays.tensors.items()}
    return Arrays(tensors, [field[e] for field in arrays.start], dict(arrays.base))


class StackedValues(dict[int, Tensor]):
    """Row values of a chunk for all members, as :class:`RowValues` has them for one."""

    def __init__(self, plan: Plan, shared: list[dict[Any, Any]], arrays: Arrays, span: Span) -> None:
        super().__init__()
        self.plan, self.shared, self.arrays, self.span = plan, shared, arrays, span
        self.own: list[RowValues] = []
        self.column_sums: list[tuple[Tensor, Tensor]] = []

    def __missing__(self, value: int) -> Tensor:
        source: Source | None = self.plan.sources.get(value)
        if source is not None and source.before is None:
            base, rows = self.arrays.base.get(source.array, 0), self.span.rows
            found = self.arrays.tensors[source.array][:, rows.start - base : rows.stop - base]
        elif source is not None:
            found = torch.cat([rows for _, rows in self._before(source)], 1)
        else:
            self.own = self.own or [
                RowValues(self.plan, shared, of_member(self.arrays, e), self.span)
                for e, shared in enumerate(self.shared)
            ]
            found = torch.stack([own[value] for own in self.own])
        self[value] = found
        return found

    def plan_sum(self, work: Work, sums: dict[int, Tensor], row_sum: RowSum) -> bool:
        """Add a sum over rows to the work that follows the loop, if all it reads lies in arrays; whether it does.

        Each member's sums then read what its loop has just written, in the cache.
        """
        sides = [side for side in (row_sum.left, row_sum.right) if side is not None]
        if any(side not in self.plan.sources for side in sides):
            return False
        total = sums[row_sum.result]
        if row_sum.right is None:
            rows = self[row_sum.left]
            if not rows[0].is_contiguous():
                return False
            part = torch.empty_like(total)
            work.column_sums(rows.flatten(2) if rows.dim() > 2 else rows[..., None], part.flatten(1))
            self.column_sums.append((total, part))
            return True
        for a, b in self._factors(row_sum):
            work.product(a.mT, b, total.view(len(total), a.shape[2], b.shape[2]), add=True)
        return True

    def add(self, total: Tensor, row_sum: RowSum) -> None:
        """Add the sum over the rows of this chunk to each member's total."""
        if row_sum.right is None:
            left = self[row_sum.left]
            total += several_column_sums(left.reshape(*left.shape[:2], -1)).view(total.shape)
            return
        for a, b in self._factors(row_sum):
            matmuls(a.mT, b, total.view(len(total), a.shape[2], b.shape[2]), add=True)

    def _factors(self, row_sum: RowSum) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of rows ``(E, n, ...)`` whose products make up a sum."""
        sides = [self._parts(side) for side in (row_sum.left, row_sum.right) if side is not None]
        cuts = max(sides, key=len)
        for k, (where, _) in enumerate(cuts):
            a, b = (side[k][1] if len(side) == len(cuts) else side[0][1][:, where] for side in sides)
            # Views, never copies: what they see may not be filled yet.
            yield a.view(len(a), -1, a.shape[-1]), b.view(len(b), -1, b.shape[-1])

    def _parts(self, value: int) -> list[tuple[slice, Tensor]]:
        source = self.plan.sources.get(value)
        if source is not None and source.before is not None and value not in self:
            return self._before(source)
        return [(slice(0, self.span.rows.stop - self.span.rows.start), self[value])]

    def _before(self, source: Source) -> list[tuple[slice, Tensor]]:
        """:meth:`Arrays.all_before` of a dense batch, of all members."""
        turned = {source.array: self.arrays.tensors[source.array].transpose(0, 1)}
        start = [field.transpose(0, 1) for field in self.arrays.start]
        return [(where, rows.transpose(0, 1)) for where, rows in Arrays(turned, start).all_before(source, self.span)]
