"""Networks in exact numbers: identities of the theory, in integers (Lizaire et al. 2026, Appendices A.1 to A.4)."""

import numpy as np
import pytest

from engram.exact import (
    PRIME,
    ExactLayer,
    ExactNetwork,
    degree_of,
    delta,
    integers,
    random_linear_rnn,
    random_linear_weights,
    residues,
    same,
    sample,
)
from engram.exact._network import zeros


def test_degree_of() -> None:
    assert degree_of([0, 0, 0], PRIME) == -1
    assert degree_of([7, 7], PRIME) == 0
    assert degree_of([3 * z**5 - z for z in range(8)], PRIME) == 5


def test_the_flat_network_can_do_more() -> None:
    """U_2 of the one layer is a product with U_1: its rank is at most that of U_1, which one layer need not keep."""
    network = random_linear_rnn(3, 2, 2, 0)
    first = np.outer([1, 2, 3], [1, 1]).astype(object)  # rank 1
    second = network.layers[1].into @ first
    assert all(second[i, 0] * second[j, 1] == second[i, 1] * second[j, 0] for i in range(3) for j in range(3))
    assert not any((network.layers[1].into @ (0 * first)).ravel())


def second_order(hidden: int, inputs: int, depth: int, seed: int) -> ExactNetwork:
    """A random 2RNN in integers."""
    plain = random_linear_rnn(hidden, inputs, depth, seed)
    layers = [
        layer._replace(tensor=integers(seed, 100 + k, hidden, layer.into.shape[1], hidden))
        for k, layer in enumerate(plain.layers)
    ]
    return ExactNetwork(tuple(layers), plain.start)


@pytest.mark.parametrize(("hidden", "inputs", "depth"), [(2, 3, 2), (3, 1, 1)])
def test_a_2rnn_is_deepened(hidden: int, inputs: int, depth: int) -> None:
    """The added layer passes on its input: U = I, and A = 0."""
    network = second_order(hidden, inputs, depth, 0)
    nothing, back, bias = zeros(hidden, hidden)
    added = ExactLayer(nothing + np.eye(hidden, dtype=object), back, bias, np.zeros((hidden,) * 3, dtype=object))
    deeper = ExactNetwork((*network.layers, added), (*network.start, bias))
    x = integers(5, 0, 4, inputs)
    for states, more in zip(network.run(x), deeper.run(x), strict=True):
        assert same(states[-1], more[-1])


@pytest.mark.parametrize(("hidden", "inputs", "depth"), [(2, 3, 3), (3, 2, 4), (1, 1, 2)])
def test_lemma_1(hidden: int, inputs: int, depth: int) -> None:
    """Unrolled in depth: a product of matrices that depend on the old states."""
    network = second_order(hidden, inputs, depth, 1)
    x, old = integers(6, 0, 3, inputs), list(network.start)
    for step, states in enumerate(network.run(x)):
        above = x[step]
        for k, layer in enumerate(network.layers):
            assert layer.tensor is not None
            matrix = sum(old[k][i] * layer.tensor[i].T for i in range(hidden)) + layer.into
            above = matrix @ above + (layer.hidden @ old[k] + layer.bias)
            assert same(above, states[k])
        old = states


def test_affine_not_linear() -> None:
    """Proposition 2: F(x) - F(0) is additive and homogeneous; F itself is not."""
    network = random_linear_rnn(2, 2, 3, 2)
    x, y = integers(7, 0, 4, 2), integers(7, 1, 4, 2)

    def f(inputs: np.ndarray) -> np.ndarray:
        return np.concatenate([states[-1] for states in network.run(inputs)])

    zero = f(0 * x)
    assert same(f(x + 3 * y) - zero, (f(x) - zero) + 3 * (f(y) - zero))
    assert not same(f(x + 3 * y), f(x) + 3 * f(y))


def test_integers_and_residues() -> None:
    """Whole numbers from -9 to 9; residues are those of the sample, and count modulo p."""
    assert sorted(set(integers(0, 0, 2000).tolist())) == list(range(-9, 10))
    found = residues(101, 3, 4, 2, 5)
    assert np.array_equal([[int(number) for number in row] for row in found], sample(101, 3, 4, 2, 5))
    assert int(found[0, 0] - found[0, 0] - 1) == 100


def test_delta() -> None:
    """A_ijk = 1 if i = j = k < R: the first min(n, m, R) numbers are multiplied one by one, the others become zero."""
    for hidden, features, rank in ((3, 4, None), (4, 3, None), (4, 4, 2), (2, 4, 3), (3, 3, 0)):
        tensor = delta(hidden, features, rank)
        assert tensor.shape == (hidden, features, hidden)
        limit = min(hidden, features) if rank is None else min(hidden, features, rank)
        for i, j, k in np.ndindex(tensor.shape):
            assert tensor[i, j, k] == (i == j == k < limit)


def test_no_two_weights_are_the_same_numbers() -> None:
    """Each array of a network is sampled for a purpose of its own; the purposes are those of certificates: for ever."""
    network = random_linear_rnn(3, 3, 2, 5)
    for k, layer in enumerate(network.layers):
        for j, (array, shape) in enumerate(((layer.into, (3, 3)), (layer.hidden, (3, 3)), (layer.bias, (3,)))):
            assert same(array, integers(5, 4 * k + j, *shape))
        assert same(network.start[k], integers(5, 4 * k + 3, 3))
    layers, readout = random_linear_weights(3, 2, 2, 4, PRIME, 5)
    assert np.array_equal(readout, sample(PRIME, 5, 1, 4, 3))
    for k, (into, hidden) in enumerate(layers):
        assert np.array_equal(into, sample(PRIME, 5, 2 * k + 2, 3, 3 if k else 2))
        assert np.array_equal(hidden, sample(PRIME, 5, 2 * k + 3, 3, 3))
