"""Shift registers copy with every lag that is possible, to the digit (Lizaire et al. 2026, Lemma 2)."""

from collections.abc import Sequence

import pytest
import torch

from engram.certify._delay import copies
from engram.nn import LinearRNN
from engram.theory import largest_lag, least_hidden, shift_register
from tiers import slow

LAGS = range(1, 22)
QUICK = (1, 2, 6, 7, 12)


@pytest.mark.parametrize("hidden", range(2, 8))
@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("lags", [QUICK, slow([lag for lag in LAGS if lag not in QUICK])], ids=["some", "the others"])
def test_lemma_2(hidden: int, inputs: int, lags: Sequence[int]) -> None:
    """252 delay lines, also where n - 1 does not divide p, at the least depth."""
    for lag in lags:
        layer, readout = shift_register(hidden, lag, inputs=inputs)
        assert isinstance(layer, LinearRNN)
        assert layer.num_layers == -(-lag // (hidden - 1))
        assert copies(layer, readout, lag, seed=lag)


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_all_channels(channels: int, depth: int) -> None:
    """100 cases at the least width, which one unit less would not do."""
    for lag in (1, 2, 3, 5, 8):
        hidden = least_hidden(lag, depth, channels)
        assert hidden == channels + -(-lag * channels // depth)
        assert copies(*shift_register(hidden, lag, channels, depth=depth), lag, seed=0)
        assert largest_lag(hidden - 1, depth, channels) < lag


def test_another_lag_is_told_apart() -> None:
    layer, readout = shift_register(3, 3)
    assert not copies(layer, readout, 2, seed=0)
    with torch.no_grad():
        layer.cells[1].weight_hh[0, 1] = 1 + 1e-15
    assert not copies(layer, readout, 3, seed=0)


def test_any_length_and_batch() -> None:
    layer, readout = shift_register(4, 7, 2)
    x = torch.randint(-9, 9, (50, 6, 2)).double()
    assert torch.equal(readout(layer(x)[0])[7:], x[:-7])
