"""The coefficient tensor of a tensor-train network, over a prime field (spec/tensor-train.md 4, 5)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engram.certify._field import Residues, draw, product


@dataclass(frozen=True)
class TensorTrain:
    """X^{i_1..i_d} = G_1^{i_1} G_2^{i_2} ... G_d^{i_d}, modulo p.

    first: ``(n, r)``; inner: d - 2 cores ``(r, n, r)``, the same one if equal; last: ``(r, n)``.
    """

    prime: int
    first: Residues
    inner: tuple[Residues, ...]
    last: Residues

    @property
    def order(self) -> int:
        """d, the number of modes."""
        return len(self.inner) + 2

    def grid(self, at_once: int = 1 << 17) -> Iterator[tuple[int, Residues]]:
        """The odd-even matricization ``(n^{d/2}, n^{d/2})`` by blocks of rows: the first row of each, and the block.

        Rows are numbered by (i_1, i_3, ...), columns by (i_2, i_4, ...). A mode of odd number multiplies the rows by n,
        one of even number the columns; what grows too large is cut into two halves of the rows.
        """
        (n, r), p = self.first.shape, self.prime
        # First row, rows still to come of each, modes done, and the states (r, rows, columns).
        todo = [(0, n ** (self.order // 2 - 1), 1, self.first.T[:, :, None])]
        while todo:
            start, expand, done, part = todo.pop()
            _, rows, columns = part.shape
            if rows > 1 and rows * columns * r * n > at_once:
                half = rows // 2
                todo.append((start + half * expand, expand, done, part[:, half:]))
                todo.append((start, expand, done, part[:, :half]))
                continue
            flat = part.reshape(r, -1)
            if done == self.order - 1:
                entries = product(self.last.T, flat, p).reshape(n, rows, columns)
                yield start, entries.transpose(1, 2, 0).reshape(rows, -1)
                continue
            new = product(self.inner[done - 1].reshape(r, -1).T, flat, p).reshape(n, r, rows, columns)
            if done % 2 == 0:  # the next mode, done + 1, is odd: more rows
                todo.append((start, expand // n, done + 1, new.transpose(1, 2, 0, 3).reshape(r, rows * n, columns)))
            else:
                todo.append((start, expand, done + 1, new.transpose(1, 2, 3, 0).reshape(r, rows, columns * n)))


def random_train(modes: int, rank: int, order: int, equal: bool, prime: int, seed: int) -> TensorTrain:
    """Cores drawn uniformly from 1 .. p-1."""
    count = min(1, order - 2) if equal else order - 2
    cores = tuple(draw(prime, seed, 2 + k, rank, modes, rank) for k in range(count))
    inner = cores * (order - 2) if equal else cores
    return TensorTrain(prime, draw(prime, seed, 0, modes, rank), inner, draw(prime, seed, 1, rank, modes))


def constructed_train(modes: int, rank: int, order: int, prime: int) -> TensorTrain:
    """The equal cores of the proof: a state that holds a letter and must read it again, or is neutral (q + 1).

    With q = min(n, r - 1), 0-based: G[a, a, q] = 1 for a < q; G[q, i, i] = 1; the rest 0.
    """
    q = min(modes, rank - 1)
    first = np.eye(modes, rank, dtype=np.uint64)
    core = np.zeros((rank, modes, rank), dtype=np.uint64)
    for a in range(q):
        core[a, a, q] = 1
    for i in range(min(modes, rank)):
        core[q, i, i] = 1
    return TensorTrain(prime, first, (core,) * (order - 2), first.T.copy())
