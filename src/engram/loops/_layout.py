"""The steps of a span, and arrays that have a row for each row of the batch and each step.

A dense batch has ``alive[t] = B`` at every step; of packed sequences fewer are alive at later steps. Row i of step t is
row ``first[t] + i`` of every array.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from engram.loops._program import Source


@dataclass(frozen=True)
class Span:
    """Steps ``start .. end`` of a sequence, in the order of the recurrence or, with ``backwards``, against it."""

    alive: list[int]
    first: list[int]
    reverse: bool
    start: int
    end: int
    in_memory: tuple[Tensor, Tensor]
    """``alive`` and ``first``, as C reads them."""
    backwards: bool = False

    @classmethod
    def whole(cls, alive: list[int], reverse: bool) -> "Span":
        first = [*accumulate(alive, initial=0)]
        return cls(alive, first, reverse, 0, len(alive), (torch.tensor(alive), torch.tensor(first)))

    @property
    def dense(self) -> bool:
        """Whether every row is alive at every step."""
        return self.alive[0] == self.alive[-1]

    @property
    def rows(self) -> slice:
        """The rows of its steps."""
        return slice(self.first[self.start], self.first[self.end])

    def order(self) -> Iterator[int]:
        steps = range(self.start, self.end)
        return iter(steps if self.reverse is self.backwards else reversed(steps))

    def chunks(self, bytes_per_row: int, most: int, backwards: bool) -> "list[Span]":
        """Pieces of whole steps whose rows take at most that many bytes, in the order in which they run."""
        rows = max(1, most // max(1, bytes_per_row))
        every = max(1, rows // max(1, self.alive[0]))
        cuts = range(self.start, self.end, every)
        spans = [
            Span(self.alive, self.first, self.reverse, a, min(a + every, self.end), self.in_memory, backwards)
            for a in cuts
        ]
        return spans[::-1] if self.reverse is not backwards else spans

    def step_before(self, t: int) -> int | None:
        """The step before t in the order of the recurrence; None at its start."""
        before = t + 1 if self.reverse else t - 1
        return before if 0 <= before < len(self.alive) else None


@dataclass
class Arrays:
    """Arrays by name. An array of one chunk starts at the row ``base`` of the sequence."""

    tensors: dict[str, Tensor]
    start: list[Tensor]
    base: dict[str, int] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def rows(self, name: str, span: Span) -> Tensor:
        base = self.base.get(name, 0)
        return self.tensors[name][span.rows.start - base : span.rows.stop - base]

    def steps(self, source: Source, span: Span) -> list[Tensor]:
        """The rows of each step of a span."""
        if source.before is not None:
            return [self.before(source, t, span) for t in range(span.start, span.end)]
        return list(self.rows(source.array, span).split(span.alive[span.start : span.end]))

    def before(self, source: Source, t: int, span: Span) -> Tensor:
        """The rows of step t as they were at the step before; rows that start at t come from the initial state."""
        m, start, previous = span.alive[t], self.start[source.before or 0], span.step_before(t)
        if previous is None:
            return start[:m]
        n = min(m, span.alive[previous])
        rows = self.tensors[source.array][span.first[previous] : span.first[previous] + n]
        return rows if n == m else torch.cat([rows, start[n:m]])

    def all_before(self, source: Source, span: Span) -> list[tuple[slice, Tensor]]:
        """:meth:`before` of all steps of a span, without a copy where the batch is dense: pairs of a slice of the rows
        and what these rows were before."""
        count = span.rows.stop - span.rows.start
        if not span.dense:  # packed: rows start and end
            steps = [self.before(source, t, span) for t in range(span.start, span.end)]
            return [(slice(0, count), torch.cat(steps))]
        batch, array = span.alive[0], self.tensors[source.array]
        edge = span.end == len(span.alive) if span.reverse else span.start == 0
        shift = batch if span.reverse else -batch
        first, last = span.rows.start + shift, span.rows.stop + shift
        if not edge:
            return [(slice(0, count), array[first:last])]
        start = self.start[source.before or 0]
        if span.reverse:
            parts = [(slice(0, count - batch), array[first : last - batch]), (slice(count - batch, count), start)]
        else:
            parts = [(slice(0, batch), start), (slice(batch, count), array[first + batch : last])]
        return [(where, rows) for where, rows in parts if len(rows)]
