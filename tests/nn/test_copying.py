"""Copies of a layer: deep copies, pickles, state dicts, folded layers, the names of weights, two threads."""

import copy
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.nn import RNN

LAYERS: dict[str, dict[str, Any]] = {
    "free": {},
    "exponential, two layers": {"map": "exponential", "num_layers": 2, "dropout": 0.3},
    "cayley, modrelu": {"map": "cayley", "activation": "modrelu", "bidirectional": True, "initial_state": "trained"},
    "complex": {"dtype": torch.complex128, "activation_in": "depth", "checkpoint_every": 3},
}


@pytest.fixture(params=LAYERS.values(), ids=LAYERS.keys())
def layer(request: pytest.FixtureRequest) -> RNN:
    layer = RNN(3, 4, **{"dtype": torch.float64, **request.param}).eval()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)  # off the base point of the map
    return layer


@pytest.fixture
def x() -> Tensor:
    return torch.randn(6, 2, 3, dtype=torch.float64)


def train(layer: RNN, x: Tensor) -> None:
    """One step that moves every weight."""
    before = [p.detach().clone() for p in layer.parameters()]
    output, _ = layer(x)
    output.abs().square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    layer.zero_grad()
    assert not any(torch.equal(p, b) for p, b in zip(layer.parameters(), before, strict=True))


def through_pickle(layer: RNN) -> RNN:
    return pickle.loads(pickle.dumps(layer))


def through_torch_save(layer: RNN) -> RNN:
    memory = io.BytesIO()
    torch.save(layer, memory)
    memory.seek(0)
    return torch.load(memory, weights_only=False)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, through_pickle, through_torch_save])
def test_a_copy_is_the_same_layer_and_another_one(layer: RNN, x: Tensor, duplicate: Callable[[RNN], RNN]) -> None:
    layer.cells[0].weight_ih.requires_grad_(False)
    first, *others = layer.cells[0].parameters()
    if parametrize.is_parametrized(layer.cells[0]):
        layer.cells[0].parametrizations.weight_hh.original.requires_grad_(False)
    other = duplicate(duplicate(layer))  # a copy can be copied
    assert first is not next(other.parameters())
    assert len(others) >= 2
    before = layer(x)
    assert all(torch.equal(a, b) for a, b in zip(other(x), before, strict=True))
    assert repr(other) == repr(layer)
    assert other.state_dict().keys() == layer.state_dict().keys()
    frozen = {name: p.requires_grad for name, p in layer.named_parameters()}
    assert {name: p.requires_grad for name, p in other.named_parameters()} == frozen
    train(other.requires_grad_(True), x)
    assert not torch.allclose(other(x)[0], before[0])
    assert all(torch.equal(a, b) for a, b in zip(layer(x), before, strict=True))
    train(layer.requires_grad_(True), x)


def test_a_diverged_layer_can_be_loaded() -> None:
    """Pickle asks no map whether it likes its matrix."""
    layer = RNN(3, 4, map="cayley")
    nn.init.constant_(layer.cells[0].parametrizations.weight_hh.original, float("nan"))
    assert bool(through_pickle(layer).weight_hh_l0.isnan().all())


def test_state_dict_round_trip(layer: RNN, x: Tensor, request: pytest.FixtureRequest) -> None:
    """Base points of the maps included: another layer with the same options becomes the same."""
    options = next(o for name, o in LAYERS.items() if f"[{name}]" in request.node.name)
    other = RNN(3, 4, **{"dtype": torch.float64, **options}).eval()
    assert not torch.allclose(other(x)[0], layer(x)[0])
    if "map" in options:
        assert "cells.0.parametrizations.weight_hh.0.base" in layer.state_dict()
    assert str(other.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    assert all(torch.equal(a, b) for a, b in zip(other(x), layer(x), strict=True))


def test_fold(layer: RNN, x: Tensor) -> None:
    before = layer(x)
    plain = layer.fold()
    assert all(torch.equal(a, b) for a, b in zip(plain(x), before, strict=True))
    assert not any(parametrize.is_parametrized(module) for module in plain.modules())
    assert not any("parametrizations" in name for name in plain.state_dict())
    assert not any(p.requires_grad for p in plain.parameters())
    assert type(through_pickle(plain).cells[0]) is type(plain.cells[0]) is RNN.cell
    train(layer, x)
    assert not torch.allclose(layer(x)[0], before[0])
    assert torch.equal(plain(x)[0], before[0])


def test_fold_of_a_copy_leaves_the_original() -> None:
    layer = RNN(3, 4, map="cayley")
    copy.deepcopy(layer).fold()
    assert parametrize.is_parametrized(layer.cells[0], "weight_hh")
    train(layer, torch.randn(5, 2, 3))


def test_repr() -> None:
    text = repr(RNN(3, 4, 2, map="cayley", dropout=0.5, bidirectional=True, return_sequence=False))
    assert text.startswith("RNN(\n  3, 4, num_layers=2, dropout=0.5, bidirectional=True, return_sequence=False\n")
    assert "2 x ParametrizedRNNCell(\n      3, 4, activation='tanh', activation_in='recurrence'" in text
    assert text.count("(0): Cayley(4") == 2  # a layer each: torch folds equal cells into one
    assert "batch_first" not in repr(RNN(3, 4))


NAMES = ["weight_ih_l0", "weight_hh_l0_reverse", "bias_l1", "weight_hh_l1_reverse"]


@pytest.mark.parametrize("name", NAMES)
def test_weights_have_the_names_of_torch(name: str) -> None:
    layer = RNN(3, 4, 2, bidirectional=True)
    theirs = nn.RNN(3, 4, 2, bidirectional=True)
    cell = layer.cells[NAMES.index(name)]
    own = name.partition("_l")[0]
    assert getattr(layer, name) is getattr(cell, own)
    assert getattr(layer, name).shape == getattr(theirs, name.replace("bias", "bias_ih")).shape
    new = nn.Parameter(torch.zeros_like(getattr(cell, own)))
    setattr(layer, name, new)
    assert getattr(cell, own) is new
    assert len(list(layer.parameters())) == 12


@pytest.mark.parametrize("name", ["weight_hh_l2", "weight_hh_l0_reverse", "mod_bias_l0x", "weight_l0", "nothing"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(RNN(3, 4, 2), name)


def test_a_matrix_is_assigned_by_its_name() -> None:
    layer = RNN(3, 4, map="cayley")
    matrix = nn.init.orthogonal_(torch.empty(4, 4))
    layer.weight_hh_l0 = matrix
    torch.testing.assert_close(layer.weight_hh_l0, matrix, atol=1e-6, rtol=0)  # float32: one solve with A = 0
    with pytest.raises(TypeError, match="cannot assign"):  # torch's own words, for a plain parameter
        RNN(3, 4).weight_hh_l0 = matrix


@pytest.mark.usefixtures("kernel")
def test_two_threads(layer: RNN) -> None:
    """Two threads in the same layer at once: each gets its own results and gradients."""
    inputs = [torch.randn(30, 2 + i % 3, 3, dtype=torch.float64) for i in range(8)]

    def work(x: Tensor) -> tuple[Tensor, ...]:
        output, state = layer(x)
        return output, state, *torch.autograd.grad(output.abs().sum() + state.abs().sum(), list(layer.parameters()))

    expected = list(map(work, inputs))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, inputs * 2))
    assert len(found) == 16
    for values, right in zip(found, expected * 2, strict=True):
        for a, b in zip(values, right, strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=0)  # the same sums


def test_what_is_frozen_stays_frozen(layer: RNN) -> None:
    """In a copy with other arguments; in one that is not, nothing is."""
    frozen = [name for name, _ in layer.named_parameters()][::2]
    for name in frozen:
        layer.get_parameter(name).requires_grad_(False)
    for other in (layer.replace(batch_first=True), copy.deepcopy(layer)):
        assert [name for name, p in other.named_parameters() if not p.requires_grad] == frozen
