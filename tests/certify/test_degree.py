"""The degree of second-order networks, and the inclusion that fails as printed (Lizaire et al. 2026, A.6 to A.8)."""

from math import comb

import numpy as np
import pytest

from engram.certify import DegreeClaim, HomogeneousClaim, certify
from engram.certify._degree import degree, degree_in
from engram.errors import OptionError
from engram.exact import ExactNetwork, bilinear_network, delta, integers, random_linear_rnn, same


@pytest.mark.parametrize("witness", ["random", "construction"])
@pytest.mark.parametrize(("steps", "depth"), [(1, 1), (3, 1), (2, 5), (3, 3), (4, 4), (6, 2), (1, 4)])
def test_the_claim(steps: int, depth: int, witness: str) -> None:
    found = certify(DegreeClaim(steps, depth), witness=witness)
    assert found.holds
    assert found.found["degree"] == found.found["evaluated"] == comb(steps + depth - 1, depth)
    assert found.found["in_each_step"] == [comb(steps - s + depth - 1, depth - 1) for s in range(1, steps + 1)]


@pytest.mark.parametrize(("hidden", "inputs"), [(1, 1), (3, 2), (2, 4)])
def test_width_does_not_raise_it(hidden: int, inputs: int) -> None:
    assert certify(DegreeClaim(3, 2, hidden, inputs)).found["degree"] == 6


def test_depth_is_not_exponential() -> None:
    """For T = 2 the degree is L + 1, not 2^L."""
    assert [degree(2, depth) for depth in range(1, 7)] == [2, 3, 4, 5, 6, 7]
    assert "The printed bound is 2^6." in certify(DegreeClaim(2, 6)).statement


@pytest.mark.parametrize("depth", range(1, 6))
def test_the_closed_form(depth: int) -> None:
    """A = delta, h_0 = 1: h_t is the product of x_s to the powers of the degrees, entry by entry."""
    network = bilinear_network([delta(3, 3)] * depth, [np.ones(3, dtype=object)] * depth)
    x = integers(0, 0, 4, 3)
    for t, states in enumerate(network.run(x), start=1):
        wanted = np.prod([x[s - 1] ** degree_in(s, t, depth) for s in range(1, t + 1)], axis=0)
        assert same(states[-1], wanted)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_2rnn_has_the_same_degree(steps: int, depth: int) -> None:
    """Random integers, along a random line, by differences in integers: of order m not zero, of order m + 1 zero."""
    plain = random_linear_rnn(2, 2, depth, 3)
    layers = [layer._replace(tensor=integers(3, 50 + k, 2, 2, 2)) for k, layer in enumerate(plain.layers)]
    network = ExactNetwork(tuple(layers), plain.start)
    base, along = integers(3, 90, steps, 2), integers(3, 91, steps, 2)
    m = degree(steps, depth)
    values = np.array([network.run(base + z * along)[-1][-1] for z in range(m + 2)])
    assert np.diff(values[:-1], m, axis=0).any()
    assert not np.diff(values, m + 1, axis=0).any()


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_theorem_3_in_the_first_input(depth: int) -> None:
    """h^L_2 of a 2RNN has degree L in x_1: what depth L + 1 reaches, depth L does not."""
    plain = random_linear_rnn(3, 2, depth, 4)
    layers = [
        layer._replace(tensor=integers(4, 50 + k, 3, layer.into.shape[1], 3)) for k, layer in enumerate(plain.layers)
    ]
    network = ExactNetwork(tuple(layers), plain.start)
    (first, second), along = integers(4, 90, 2, 2), integers(4, 91, 2)
    values = np.array([network.run([first + z * along, second])[-1][-1] for z in range(depth + 2)])
    assert np.diff(values[:-1], depth, axis=0).any()
    assert not np.diff(values, depth + 1, axis=0).any()


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize(("hidden", "inputs", "rank"), [(3, 3, 3), (4, 2, 4), (2, 4, 2), (4, 2, 3), (4, 4, 2)])
def test_powers_of_the_first_input(hidden: int, inputs: int, rank: int, depth: int) -> None:
    """diag(x_1)^L x_2 on the first min(n, d, R) units, the others 0: BIRNNs, and CPBIRNNs of rank R."""
    tensors = [delta(hidden, inputs if k == 0 else hidden, rank) for k in range(depth)]
    network = bilinear_network(tensors, [np.ones(hidden, dtype=object)] * depth)
    x, k = integers(1, 0, 2, inputs), min(hidden, inputs, rank)
    states = network.run(x)
    assert same(states[0][-1][:k], x[0][:k])
    assert same(states[1][-1][:k], x[0][:k] ** depth * x[1][:k])
    assert not states[1][-1][k:].any()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (1, 1, 1), (3, 2, 2)])
def test_the_inclusion_fails(depth: int, sizes: tuple[int, ...]) -> None:
    found = certify(HomogeneousClaim(depth, *sizes))
    assert found.holds
    assert found.found["powers"] == [depth, depth + 1]


def test_the_smallest_counterexample() -> None:
    """n = d = 1: depth 1 is the product of the inputs, depth 2 that of their powers."""
    x = np.array([[2], [3], [5]], dtype=object)
    one, two = (bilinear_network([delta(1, 1)] * depth, [np.ones(1, dtype=object)] * depth) for depth in (1, 2))
    assert one.run(x)[-1][-1] == 2 * 3 * 5
    assert two.run(x)[-1][-1] == 2**3 * 3**2 * 5


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="choose smaller sizes"):
        certify(DegreeClaim(1000, 1000))
    for prime in (31, 37):  # of degree C(7, 4) = 35, with 37 points
        with pytest.raises(OptionError, match=f"prime must be above 37, the degree plus 2; got {prime}"):
            certify(DegreeClaim(4, 4), prime=prime)
    with pytest.raises(OptionError, match="rank must be at least 0"):
        HomogeneousClaim(1, rank=-1)
