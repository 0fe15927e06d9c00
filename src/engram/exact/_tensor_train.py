"""Tensor trains with cores in a prime field, and their matrix of odd against even modes.

Source: Alkin (2024), Chapter 4, Theorem 1 and its proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.exact._field import Residues, product, sample


@dataclass(frozen=True)
class FieldTrain:
    """The cores of a tensor X^{i_1..i_d} = G_1^{i_1} G_2^{i_2} ... G_d^{i_d} modulo p, mode size n, rank r."""

    AT_ONCE: ClassVar[int] = 1 << 17
    """Entries of a block of the matrix."""

    prime: int
    """p."""
    first: Residues
    """G_1, ``(n, r)``."""
    inner: tuple[Residues, ...]
    """G_2 .. G_{d-1}, each ``(r, n, r)``; one core d - 2 times if the cores are equal."""
    last: Residues
    """G_d, ``(r, n)``."""

    @property
    def order(self) -> int:
        """d, the number of modes."""
        return len(self.inner) + 2

    def grid(self, at_once: int = AT_ONCE) -> Iterator[tuple[int, Residues]]:
        """The entries as the matrix ``(n^{d/2}, n^{d/2})``, in blocks of rows: row i_1, i_3, ..., column i_2, i_4, ...

        Yields the number of the first row of each block, and the block. Core by core: an odd mode multiplies the number
        of rows by n, an even one the number of columns; a part that grows too large is cut into two halves of its rows.
        """
        (n, r), p = self.first.shape, self.prime
        # First row, how many rows each row will become, modes done, and the states (r, rows, columns).
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


def random_train(modes: int, rank: int, order: int, equal: bool, prime: int, seed: int) -> FieldTrain:
    """Cores sampled uniformly from 1 .. p - 1.

    Args:
        modes: n, the size of each axis.
        rank: r.
        order: d, the number of axes.
        equal: one inner core, used d - 2 times.
        prime: p.
        seed: random seed of the numbers.
    """
    count = min(1, order - 2) if equal else order - 2
    cores = tuple(sample(prime, seed, 2 + k, rank, modes, rank) for k in range(count))
    inner = cores * (order - 2) if equal else cores
    return FieldTrain(prime, sample(prime, seed, 0, modes, rank), inner, sample(prime, seed, 1, rank, modes))


def constructed_train(modes: int, rank: int, order: int, prime: int) -> FieldTrain:
    """The equal cores in the proof of Theorem 1: in state a < q index a was read and must come again; q is neutral.

    With q = min(n, r - 1), counted from 0: G[a, a, q] = 1 for a < q; G[q, i, i] = 1; the rest 0.

    Args:
        modes: n, the size of each axis.
        rank: r.
        order: d, the number of axes.
        prime: p.
    """
    q = min(modes, rank - 1)
    first = np.eye(modes, rank, dtype=np.uint64)
    core = np.zeros((rank, modes, rank), dtype=np.uint64)
    for a in range(q):
        core[a, a, q] = 1
    for i in range(min(modes, rank)):
        core[q, i, i] = 1
    return FieldTrain(prime, first, (core,) * (order - 2), first.T.copy())
