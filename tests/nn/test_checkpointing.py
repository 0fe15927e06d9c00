"""Recomputation changes nothing: every layer under torch.utils.checkpoint and with checkpoint_every."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from engram.models import MODELS
from engram.nn import RNN, Recurrent
from tiers import MODELS_OF_EACH_KIND, slow_but

LAYERS = [name for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)]
MAPS = ["exponential", "cayley", "scaled-cayley", "householder", "givens", "schur", "spectral-margin"]
# The second run of a segment is the first one again; only the gradients of the segments are added in another order. A
# gradient is a sum of T B H = 56 terms per layer, each rounded by 1.1e-16: 2 * 56 * 1.1e-16 of the largest number.
ROUNDING = 1e-13


def the_same_when_recomputed(layer: Recurrent, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    x = torch.randn(7, 2, 3, dtype=torch.float64)

    def found(call: Callable[..., Any] | None = None) -> Any:
        torch.manual_seed(0)  # of layers that sample
        return measure(layer, x, call=call)

    expected = found()
    tolerance = ROUNDING * max(1.0, *(float(value.to(torch.complex128).abs().max()) for value in expected.values()))
    agree(found(lambda *a: checkpoint(layer, *a, use_reentrant=False)), expected, tolerance)
    layer.checkpoint_every = 3
    agree(found(), expected, tolerance)
    agree(found(lambda *a: checkpoint(layer, *a, use_reentrant=False)), expected, tolerance)


@pytest.mark.parametrize("name", slow_but(LAYERS, MODELS_OF_EACH_KIND))
def test_every_layer(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    the_same_when_recomputed(MODELS[name].kind(3, 4, 2, dtype=torch.float64), measure, agree)  # type: ignore[arg-type]


@pytest.mark.parametrize("map", slow_but(MAPS, {"cayley", "householder", "schur"}))
def test_every_map(map: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    the_same_when_recomputed(RNN(3, 4, map=map, dtype=torch.float64), measure, agree)
