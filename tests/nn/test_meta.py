"""Layers without numbers, every one under every map: shapes on the meta device, and weights that are loaded later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.errors import DTypeError
from engram.loops import use
from engram.maps import MAPS
from engram.models import MODELS
from engram.nn import RNN, Recurrent
from tiers import slow_but


def under(map: str) -> Callable[..., Recurrent]:
    dtype = torch.complex64 if map == "fourier" else None
    return lambda *sizes, **options: RNN(*sizes, map=map, dtype=dtype, **options)


LAYERS: dict[str, Callable[..., nn.Module]] = {
    **{name: entry.kind for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)},
    **{f"map {map}": under(map) for map in MAPS},
}
X = torch.linspace(-1, 1, 6 * 4 * 3).view(6, 4, 3)


@contextmanager
def device_meta() -> Iterator[None]:
    with torch.device("meta"):
        yield


@contextmanager
def accelerate_empty(include_buffers: bool) -> Iterator[None]:
    accelerate = pytest.importorskip("accelerate")
    with accelerate.init_empty_weights(include_buffers=include_buffers):
        yield


def empty(way: str, make: Callable[..., nn.Module]) -> nn.Module:
    """A layer without numbers, made in one of the ways that people use."""
    if way == "device":
        return make(3, 5, 2, device="meta")
    if way == "moved":
        return make(3, 5, 2).to("meta")
    with device_meta() if way == "context" else accelerate_empty(way == "accelerate, buffers too"):
        return make(3, 5, 2)


def tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for part in value for t in tensors(part)]


@pytest.fixture(autouse=True)
def _not_compiled() -> Iterator[None]:
    """No test here is about a loop, and to compile that of every layer takes longer than all of them."""
    with use("plain"):
        yield


@pytest.mark.parametrize("name", LAYERS)
def test_shapes(name: str) -> None:
    layer = LAYERS[name](3, 5, 2, device="meta")
    assert all(p.is_meta for p in layer.parameters())
    found, expected = tensors(layer(X.to("meta"))), tensors(LAYERS[name](3, 5, 2)(X))
    assert [(t.shape, t.dtype, t.device.type) for t in found] == [(t.shape, t.dtype, "meta") for t in expected]


WAYS = ["device", "moved", "context", "accelerate", "accelerate, buffers too"]
IN_TURN = [(name, WAYS[k % len(WAYS)]) for k, name in enumerate(LAYERS)]
"""Every layer in one of the ways."""


@pytest.mark.parametrize(("name", "way"), slow_but(product(LAYERS, WAYS), IN_TURN))
def test_weights_are_loaded(name: str, way: str) -> None:
    layer = LAYERS[name](3, 5, 2)
    weights = layer.state_dict()
    assigned = empty(way, LAYERS[name])
    assert all(p.is_meta for p in assigned.parameters())
    assigned.load_state_dict(weights, assign=True)
    filled = empty(way, LAYERS[name]).to_empty(device="cpu")
    filled.load_state_dict(weights)
    for other in (assigned, filled):
        for found, expected in zip(tensors(other(X)), tensors(layer(X)), strict=True):
            assert torch.equal(found, expected)
        other(X)[0].abs().sum().backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in other.parameters())


def test_a_matrix_without_numbers_is_not_assigned() -> None:
    layer = RNN(3, 5, map="householder", device="meta")
    with pytest.raises(DTypeError, match="Householder cannot take a matrix on the meta device"):
        layer.weight_hh_l0 = torch.eye(5, device="meta")
