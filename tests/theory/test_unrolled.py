"""The tree of a deep circuit: as many joining units as Claim 4 says, and the same value as the circuit."""

from itertools import product as words

import numpy as np
import pytest

from engram.errors import EngramError
from engram.exact import PRIME, FieldCircuit, random_circuit
from engram.theory import Chain, unroll
from engram.theory.bounds import multiset


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("steps", [2, 4, 6, 8])
def test_copies(depth: int, steps: int) -> None:
    tree, half = unroll(depth, steps), steps // 2
    for layer in range(1, depth + 1):
        assert sum(c.layer == layer and c.joins(half) for c in tree) == multiset(half, depth - layer)
    inputs = sum(c.length for c in tree if c.layer == 1)
    assert inputs == multiset(steps, depth)


def value(chain: Chain, circuit: FieldCircuit, word: tuple[int, ...]) -> list[int]:
    """h^{t,l} by the tree alone, in Python's integers."""
    state = circuit.start[chain.layer - 1].astype(object)
    for time in range(chain.length):
        below = value(chain.below[time], circuit, word) if chain.below else circuit.templates[word[time]].astype(object)
        new = state * (circuit.inputs[chain.layer - 1].astype(object) @ below) % PRIME
        state = circuit.hidden[chain.layer - 1].astype(object) @ new % PRIME
    return new


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_tree_is_the_circuit(depth: int) -> None:
    circuit = random_circuit(2, 3, depth, 2, PRIME, 0)
    grid = np.vstack([block for _, block in circuit.grid(4)]).ravel()
    for entry, word in zip(grid, words(range(2), repeat=4), strict=True):
        assert int(entry) == circuit.readout.astype(object) @ value(unroll(depth, 4), circuit, word) % PRIME


def test_the_order_of_the_chains() -> None:
    """Each chain before those below it, of which the shortest comes first."""
    assert [(chain.layer, chain.length) for chain in unroll(3, 2)] == [(3, 2), (2, 1), (1, 1), (2, 2), (1, 1), (1, 2)]
    assert [chain.length for chain in unroll(2, 4)] == [4, 1, 2, 3, 4]


@pytest.mark.parametrize(("depth", "steps"), [(0, 4), (2, 0), (2, 5)])
def test_refused(depth: int, steps: int) -> None:
    with pytest.raises(EngramError):
        unroll(depth, steps)
