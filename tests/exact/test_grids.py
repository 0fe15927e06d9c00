"""The matrices of circuits and tensor trains against the definition, entry by entry."""

from collections.abc import Iterable
from itertools import product as words

import numpy as np
import pytest

from engram.exact import (
    PRIME,
    Residues,
    conjecture_circuit,
    constructed_circuit,
    constructed_train,
    random_circuit,
    random_train,
    sample,
)


def in_one(blocks: Iterable[tuple[int, Residues]]) -> Residues:
    """The matrix of its blocks, each of which begins where the one before ends."""
    rows = 0
    found = []
    for first, block in blocks:
        assert first == rows
        rows += len(block)
        found.append(block)
    return np.vstack(found)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 10, 1 << 22])
def test_the_grid_of_a_circuit(depth: int, at_once: int) -> None:
    """Every entry by the definition, in Python's integers."""
    rac, steps = random_circuit(2, 3, depth, 3, PRIME, 0), 4
    grid = in_one(rac.grid(steps, at_once)).ravel()
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
    grid = in_one(train.grid(at_once))
    for i in words(range(3), repeat=6):
        state = train.first[i[0]].astype(object)
        for core, letter in zip(train.inner, i[1:-1], strict=True):
            state = state @ core[:, letter].astype(object) % PRIME
        row, column = 9 * i[0] + 3 * i[2] + i[4], 9 * i[1] + 3 * i[3] + i[5]
        assert int(grid[row, column]) == state @ train.last[:, i[5]].astype(object) % PRIME


def test_the_weights_of_the_proof_of_depth_2() -> None:
    """Z_ij = 2^((T/2)^2 + 1)^i on the diagonal (i from 1), 1 beside it, 0 below row M, in Python's integers."""
    for modes, channels in ((2, 3), (3, 3), (3, 2)):
        found = constructed_circuit(modes, channels, 6, PRIME)
        for i, j in np.ndindex(channels, modes):
            expected = 0 if i >= modes else pow(2, 10 ** (i + 1), PRIME) if i == j else 1
            assert int(found.inputs[0][i, j]) == expected
        assert found.inputs[1].tolist() == [[1] * channels] + [[0] * channels] * (channels - 1)
        assert all(np.array_equal(hidden, np.eye(channels)) for hidden in found.hidden)
        assert [start.tolist() for start in found.start] == [[1] * channels] * 2
        assert found.readout.tolist() == [1] + [0] * (channels - 1)
        assert np.array_equal(found.templates, np.eye(modes))


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_weights_behind_the_conjecture(depth: int) -> None:
    """Random in layer 1, one random row above it, then the first unit alone; all of it random in a single layer."""
    found, generic = conjecture_circuit(2, 3, depth, 4, PRIME, 5), random_circuit(2, 3, depth, 4, PRIME, 5)
    assert found.depth == depth
    for mine, theirs in ((found.inputs, generic.inputs), (found.hidden, generic.hidden), (found.start, generic.start)):
        assert np.array_equal(mine[0], theirs[0])
    assert np.array_equal(found.templates, generic.templates)
    assert found.readout.tolist() == (generic.readout.tolist() if depth == 1 else [1, 0, 0])
    for layer in range(1, depth):
        first = generic.inputs[1][0].tolist() if layer == 1 else [1, 0, 0]
        assert found.inputs[layer].tolist() == [first, [0, 0, 0], [0, 0, 0]]
        assert np.array_equal(found.hidden[layer], np.eye(3))
        assert found.start[layer].tolist() == [1, 1, 1]


@pytest.mark.parametrize("modes", [2, 3, 4])
def test_the_cores_of_the_proof(modes: int) -> None:
    """G[a, a, q] = 1 for a < q, G[q, i, i] = 1, the ends are the identity; r = 3, so q = min(n, 2). By the proof a word
    a, a, i, i has the entry 1."""
    q = min(modes, 2)
    train = constructed_train(modes, 3, 4, PRIME)
    grid = in_one(train.grid())
    states = [np.eye(3, dtype=int)[i] if i < 3 else np.zeros(3, dtype=int) for i in range(modes)]
    core = np.zeros((3, modes, 3), dtype=int)
    for a, i, b in np.ndindex(core.shape):
        core[a, i, b] = (a == i < q and b == q) or (a == q and i == b)
    for one, two, three, four in words(range(modes), repeat=4):
        expected = states[one] @ core[:, two] @ core[:, three] @ states[four]
        assert int(grid[one * modes + three, two * modes + four]) == expected
    for a, i in words(range(q), repeat=2):
        assert int(grid[a * modes + i, a * modes + i]) == 1


def test_the_cores_of_a_random_train_differ() -> None:
    """Each is sampled for a purpose of its own: the first, the last, then those between them."""
    for equal, count in ((False, 3), (True, 1)):
        train = random_train(3, 3, 5, equal, PRIME, 0)
        assert train.order == 5
        assert np.array_equal(train.first, sample(PRIME, 0, 0, 3, 3))
        assert np.array_equal(train.last, sample(PRIME, 0, 1, 3, 3))
        for k in range(3):
            assert np.array_equal(train.inner[k], sample(PRIME, 0, 2 + min(k, count - 1), 3, 3, 3))
    assert random_train(3, 2, 2, True, PRIME, 0).inner == ()
