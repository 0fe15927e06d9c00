"""The grids against brute force, and the ranks measured in the specifications."""

from itertools import product as words
from typing import Any

import numpy as np
import pytest

from engram.certify import PRIME, RACConjecture, RACDeep, RACShallow, TTDifferentCores, TTEqualCores, certify
from engram.certify._field import FieldMatrix, draw, product
from engram.certify._rac import random_rac
from engram.certify._tensor_train import random_train


def rank(claim: Any, witness: str = "random") -> int:
    return certify(claim, witness=witness).rank


@pytest.mark.parametrize("prime", [PRIME, 2**31 - 1, 2, 101])
@pytest.mark.parametrize("inner", [1, 3, 4, 5, 8, 9, 64, 65, 200])
def test_product_is_exact(inner: int, prime: int) -> None:
    """Also with every residue at its largest, where sums come closest to overflowing."""
    for a, b in (
        (draw(prime, 0, 0, 5, inner), draw(prime, 0, 1, inner, 3)),
        (np.full((5, inner), prime - 1, dtype=np.uint64), np.full((inner, 3), prime - 1, dtype=np.uint64)),
    ):
        assert np.array_equal(product(a, b, prime), (a.astype(object) @ b.astype(object) % prime).astype(np.uint64))


def test_both_ways_to_fill_a_matrix() -> None:
    """Into FLINT's memory, and number by number."""
    entries = draw(PRIME, 3, 0, 7, 7)
    fast, slow = FieldMatrix(7, 7, PRIME), FieldMatrix(7, 7, PRIME)
    assert fast.memory is not None
    slow.memory = None
    for matrix in (fast, slow):
        matrix.fill(0, entries[:4])
        matrix.fill(4, entries[4:])
    assert fast.matrix == slow.matrix
    assert [[int(entry) for entry in row] for row in fast.matrix.tolist()] == entries.tolist()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 10, 1 << 22])
def test_the_grid_of_a_circuit(depth: int, at_once: int) -> None:
    """Every entry by the definition, in Python's integers."""
    rac, steps = random_rac(2, 3, depth, 3, PRIME, 0), 4
    blocks = dict(rac.grid(steps, at_once))
    assert list(blocks) == sorted(blocks)
    grid = np.vstack(list(blocks.values())).ravel()
    for entry, word in zip(grid, words(range(3), repeat=steps), strict=True):
        state = [a.astype(object) for a in rac.start]
        for letter in word:
            below = rac.templates[letter].astype(object)
            for layer in range(depth):
                below = state[layer] * (rac.inputs[layer].astype(object) @ below) % PRIME
                state[layer] = rac.hidden[layer].astype(object) @ below % PRIME
        assert int(entry) == rac.readout.astype(object) @ below % PRIME


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("at_once", [1, 30, 1 << 22])
def test_the_grid_of_a_train(equal: bool, at_once: int) -> None:
    """Rows by the odd modes, columns by the even ones."""
    train = random_train(3, 2, 6, equal, PRIME, 0)
    grid = np.vstack([block for _, block in train.grid(at_once)])
    for i in words(range(3), repeat=6):
        state = train.first[i[0]].astype(object)
        for core, letter in zip(train.inner, i[1:-1], strict=True):
            state = state @ core[:, letter].astype(object) % PRIME
        row, column = 9 * i[0] + 3 * i[2] + i[4], 9 * i[1] + 3 * i[3] + i[5]
        assert int(grid[row, column]) == state @ train.last[:, i[5]].astype(object) % PRIME


# spec/arithmetic-circuits.md 5.4: M, R, T, depth, rank
CIRCUITS = [
    (2, 2, 8, 1, 2), (4, 3, 6, 1, 3), (8, 8, 4, 1, 8),
    (2, 2, 8, 2, 10), (3, 3, 8, 2, 45), (3, 4, 10, 2, 220), (4, 3, 6, 2, 30), (16, 4, 4, 2, 40), (6, 6, 6, 2, 216),
    (4, 2, 8, 3, 106), (2, 2, 12, 3, 64), (3, 2, 10, 3, 162), (3, 3, 8, 4, 81), (2, 2, 12, 4, 64),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "expected"), CIRCUITS)
def test_measured_ranks_of_circuits(modes: int, channels: int, steps: int, depth: int, expected: int) -> None:
    claim = {1: RACShallow, 2: RACDeep}.get(depth)
    made = claim(modes, channels, steps) if claim else RACConjecture(modes, channels, steps, depth=depth)
    found = certify(made)
    assert found.rank == expected
    assert found.holds


# 5.2: M, R, T, rank of the construction; 4.1 for the conjecture: M, R, T, L, rank
CONSTRUCTED = [(2, 2, 2, 2), (2, 2, 8, 5), (3, 3, 8, 15), (3, 2, 6, 4), (2, 4, 8, 5), (4, 4, 6, 20), (5, 5, 4, 15)]
PASSED_ON = [(2, 2, 12, 3, 22), (3, 3, 8, 3, 66), (4, 3, 6, 3, 28), (2, 2, 12, 4, 57)]


@pytest.mark.parametrize(("modes", "channels", "steps", "expected"), CONSTRUCTED)
def test_the_construction_of_the_theorem(modes: int, channels: int, steps: int, expected: int) -> None:
    claim = RACDeep(modes, channels, steps)
    assert rank(claim, "construction") == claim.bound == expected


@pytest.mark.parametrize(("modes", "channels", "steps", "depth", "expected"), PASSED_ON)
def test_the_assignment_of_the_conjecture(modes: int, channels: int, steps: int, depth: int, expected: int) -> None:
    claim = RACConjecture(modes, channels, steps, depth=depth)
    assert rank(claim, "construction") == claim.bound == expected


@pytest.mark.parametrize(("templates", "expected", "holds"), [(4, 12, False), (6, 18, True), (8, 24, True)])
def test_more_templates_than_modes(templates: int, expected: int, holds: bool) -> None:
    """spec 4.2: with R < M as many templates as modes are too few for the conjectured 15."""
    found = certify(RACConjecture(4, 3, 4, templates, depth=4))
    assert (found.rank, found.claim.bound, found.holds) == (expected, 15, holds)


# spec/tensor-train.md 6: n, r, d, thesis, bound, construction, generic
TRAINS = [
    (2, 2, 4, 1, 4, 4, 4), (3, 2, 6, 1, 8, 8, 18), (3, 2, 10, 1, 32, 32, 162), (4, 3, 8, 16, 81, 81, 192),
    (4, 5, 8, 256, 256, 256, 256), (5, 3, 6, 8, 27, 27, 75), (5, 6, 6, 125, 125, 125, 125), (3, 4, 8, 81, 81, 81, 81),
]  # fmt: skip


@pytest.mark.parametrize(("modes", "r", "order", "thesis", "bound", "constructed", "generic"), TRAINS)
def test_measured_ranks_of_trains(
    modes: int, r: int, order: int, thesis: int, bound: int, constructed: int, generic: int
) -> None:
    equal, different = TTEqualCores(modes, r, order), TTDifferentCores(modes, r, order)
    assert (equal.more()["printed_bound"], equal.bound, equal.upper) == (thesis, bound, generic)
    assert rank(equal, "construction") == constructed
    assert rank(equal) == rank(different) == generic
