"""A sigmoid network cannot forget: the identity of the proof, at random and at trained networks.

Emami et al. (2019), Theorem 4.1; the proof is in docs/convert.md.
"""

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
