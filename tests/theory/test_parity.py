"""Networks that compute parity without an activation in their recurrence, and other counterexamples.

Lizaire et al. (2026), Theorem 5; docs/sources.md.
"""

import numpy as np
import pytest
import torch

from engram.errors import OptionError
from engram.exact import ExactLayer, ExactNetwork, bilinear_network, delta, integers, same
from engram.exact._network import zeros
from engram.theory import DepthOnlyParity, tanh_parity
from engram.theory._parity import bent


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
    product = bilinear_network([delta(5, 5)], [ones]).run(x)[-1][-1]
    assert same(product, np.prod(x, axis=0))
    _, back, zero = zeros(5, 5)
    shifted = ExactNetwork((ExactLayer(np.eye(5, dtype=object), back, -ones, delta(5, 5)),), (zero,)).run(x)[-1][-1]
    assert same(shifted + 1, product)


def test_what_is_refused() -> None:
    for sizes, words in (((0, 1), "steps must be at least 1"), ((3, 0), "channels must be at least 1")):
        with pytest.raises(OptionError, match=words):
            tanh_parity(*sizes)
