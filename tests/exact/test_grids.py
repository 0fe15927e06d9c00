"""The matrices of circuits and tensor trains against the definition, entry by entry."""

from itertools import product as words

import numpy as np
import pytest

from engram.exact import PRIME, random_circuit, random_train


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 10, 1 << 22])
def test_the_grid_of_a_circuit(depth: int, at_once: int) -> None:
    """Every entry by the definition, in Python's integers."""
    rac, steps = random_circuit(2, 3, depth, 3, PRIME, 0), 4
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
