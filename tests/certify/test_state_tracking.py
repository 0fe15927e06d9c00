"""Lemma 4 by a kernel vector, and the networks that its wider reading forgets (spec/depth.md 6)."""

from math import gcd

import numpy as np
import pytest
import torch

from engram.certify import DepthOnlyParity, StateTracking, certify, tanh_parity
from engram.certify._network import Layer, Network, bilinear, delta, integers, same, zeros
from engram.certify._parity import bent
from engram.certify._state_tracking import kernel_vector
from engram.errors import OptionError


@pytest.mark.parametrize("sizes", [(5, 2, 2), (1, 1), (6, 2, 3), (20, 3), (7, 8)])
def test_the_claim(sizes: tuple[int, ...]) -> None:
    found = certify(StateTracking(*sizes))
    assert found.holds
    assert found.found["steps"] == sizes[0] // sizes[1] + 1


def test_the_smallest_case_of_the_specification() -> None:
    """n = d = 2, 5 units: t = 3, and the change is in the kernel by the definition."""
    content = certify(StateTracking(5)).to_dict()
    assert content["steps"] == 3
    change = np.array([[int(number) for number in row] for row in content["change"]], dtype=object)
    into, back = integers(0, 1, 5, 2), integers(0, 2, 5, 5)
    assert not (back @ back @ into @ change[0] + back @ into @ change[1] + into @ change[2]).any()


def test_the_kernel_vector_is_whole_and_the_same_for_ever() -> None:
    """Without a common divisor, so that a certificate of today can be checked in years."""
    vector = kernel_vector(integers(1, 0, 4, 3), integers(1, 1, 4, 4), 2)
    assert gcd(*vector) == 1
    assert [int(number) for number in vector] == [-261568, 15895, -116007, 444080, 1250208, 0]


def test_what_does_not_hold() -> None:
    claim = StateTracking(5)
    found = dict(claim.find("random", 101, 0))
    assert not claim.holds(found | {"target_change": [0, 0]})
    assert not claim.holds(found | {"state_differs": True})
    assert not claim.holds(found | {"change": [["0", "0"]] * 3})
    with pytest.raises(OptionError, match="at least as many units as inputs, 3; got 2"):
        StateTracking(5, 3, 2)
    with pytest.raises(OptionError, match="choose smaller sizes"):
        certify(StateTracking(5000))


def signs(steps: int, channels: int) -> torch.Tensor:
    return torch.randint(0, 2, (steps, 8, channels)).double() * 2 - 1


@pytest.mark.parametrize("steps", [20, 1000])
@pytest.mark.parametrize("channels", [1, 5])
def test_parity_by_a_homeomorphism(steps: int, channels: int) -> None:
    torch.manual_seed(0)
    x = signs(steps, channels)
    assert (DepthOnlyParity(channels)(x) - x.cumprod(0)).abs().max() < 1e-11
    u = torch.linspace(-3, 3, 2001, dtype=torch.float64)
    assert bent(u).diff().min() > 0


def test_parity_by_a_cosine() -> None:
    torch.manual_seed(0)
    x = signs(1000, 3)
    count = ((1 - x) / 2).cumsum(0)
    assert (torch.cos(torch.pi * count) - x.cumprod(0)).abs().max() < 1e-11


def test_parity_by_tanh() -> None:
    """T = 20 steps of d = 5 channels by 100 units, without any error; a step more is too many."""
    torch.manual_seed(0)
    layer, readout = tanh_parity(20, 5)
    assert layer.hidden_size == 100
    x = torch.cat([signs(20, 5), -torch.ones(20, 1, 5, dtype=torch.float64)], 1)
    assert torch.equal(readout(layer(x)[0]), x.cumprod(0))
    longer = -torch.ones(21, 1, 5, dtype=torch.float64)
    assert not torch.equal(readout(layer(longer)[0]), longer.cumprod(0))


def test_a_product_of_positive_numbers() -> None:
    """The commuting case: logarithms add up."""
    torch.manual_seed(0)
    x = torch.rand(200, 4, dtype=torch.float64) + 0.5
    assert torch.allclose(x.log().cumsum(0).exp(), x.cumprod(0), rtol=1e-10, atol=0)


def test_parity_in_second_order() -> None:
    """Exact for n = d = 5, T = 200: A = delta from h_0 = 1; or from h_0 = 0 with U = I, b = -1 and h + 1 read out."""
    x = (integers(0, 0, 200, 5) > 0).astype(object) * 2 - 1
    ones = np.ones(5, dtype=object)
    product = bilinear([delta(5, 5)], [ones]).run(x)[-1][-1]
    assert same(product, np.prod(x, axis=0))
    _, back, zero = zeros(5, 5)
    shifted = Network((Layer(np.eye(5, dtype=object), back, -ones, delta(5, 5)),), (zero,)).run(x)[-1][-1]
    assert same(shifted + 1, product)
