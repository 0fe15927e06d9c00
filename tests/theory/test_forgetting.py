"""A sigmoid network cannot forget: the identity of the proof, at random and at trained networks.

Emami et al. (2019), Theorem 4.1; the proof is in docs/convert.md.
"""

import math
from functools import partial

import pytest
import torch

from engram.errors import OptionError
from engram.maps import haar
from engram.theory import Candidate, forgetting, search_memoryless

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("states", [1, 2, 4, 8, 16])
def test_a_sigmoid_network_cannot_forget(states: int) -> None:
    """The identity of the proof, at random orthogonal W."""
    generator = torch.Generator().manual_seed(states)
    F, b, C = (torch.randn(*s, generator=generator).double() for s in ((states, 1), (states,), (1, states)))
    found = forgetting(Candidate(haar(states, generator), F, b, C), constant=0.3)
    # sum over k of a_k J^(N - k): |a_k| <= binomial(N, k) 4^-k and |J| <= 1/4, in all 2^-N, each with some N roundings
    assert found.residual < 10 * states * EPS * 2.0**-states
    assert found.last == pytest.approx(found.slopes, rel=1e-9)
    assert 0 < found.last <= 4.0**-states
    assert found.radius <= 0.25
    assert found.echo >= found.least_echo * (1 - 1e-9) > 0


def test_one_unit_by_hand() -> None:
    """Its fixed point is 3/4, where the slope of the sigmoid is 3/16: log 3 = w h + f x + b."""
    w, f, c, x = 0.5, 2.0, 3.0, 0.3
    b = math.log(3) - w * 0.75 - f * x
    number = partial(torch.full, dtype=torch.float64)
    found = forgetting(Candidate(number((1, 1), w), number((1, 1), f), number((1,), b), number((1, 1), c)), constant=x)
    assert found.slopes == pytest.approx(3 / 16)
    assert found.radius == found.last == pytest.approx(w * 3 / 16)
    assert found.response == pytest.approx(c * f * 3 / 16)
    assert found.echo == pytest.approx(c * f * w * (3 / 16) ** 2)


def test_sigmoid_residuals() -> None:
    """Positive for trained networks too, and smaller with more states."""
    found = [search_memoryless(torch.sigmoid, 1, states, restarts=16, rounds=400) for states in (1, 2)]
    assert found[0].share > 3 * found[1].share > 0
    for each in found:
        facts = forgetting(each.candidate)
        assert facts.echo >= facts.least_echo * (1 - 1e-9) > 0


def test_forgetting_needs_a_norm_of_one() -> None:
    one = torch.ones(1, 1).double()
    with pytest.raises(OptionError, match=r"spectral norm of at most 1, .* this one has 2"):
        forgetting(Candidate(2 * one, one, one[0], one))
