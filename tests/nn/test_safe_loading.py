"""Whole layers through torch.save and torch.load(weights_only=True): every layer, every map, and hostile files."""

import copy
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import engram
from engram.errors import DataError
from engram.maps import MAPS
from engram.models import MODELS, make_core
from engram.nn import RAC, RNN, S4D, Cell, ExpRNN, Recurrent
from engram.nn._attentive import restored_state
from engram.nn._bare_cell import empty_cell
from engram.relational import PixelCNN
from engram.state import parts
from tiers import MODELS_OF_EACH_KIND, slow_but


def under(map: str) -> Callable[[], nn.Module]:
    return lambda: RNN(3, 5, 2, map=map, dtype=torch.complex64 if map == "fourier" else None, bidirectional=True)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    **{
        name: lambda name=name: make_core(name, 3, 5, 1 if MODELS[name].answers_itself else 2, output_size=2, steps=6)
        for name in MODELS
    },
    **{f"map {map}": under(map) for map in MAPS},
    "lstm, options": lambda: engram.nn.LSTM(3, 5, 2, chrono=9, layer_norm=True, initial_state="trained"),
    "rac, log_scale": lambda: RAC(3, 5, log_scale=True),
    "rac under a map": lambda: RAC(3, 5, map="cayley", initial_state="trained"),
    "s4d, batch norm": lambda: S4D(3, 5, norm="batch"),
    "as nn.LSTM": lambda: engram.nn.AsLSTM(engram.nn.ExpRNN(3, 5)),
    "encoder of images": lambda: PixelCNN((3, 8, 8), 5),
    "inside a model": lambda: nn.ModuleList([engram.nn.ExpRNN(3, 5), nn.Linear(5, 2)]),
}


class Own(Cell):
    equation = "h_t = W h_{t-1} + x_t"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return drive + state @ self.weight_hh.mT


class OwnRNN(Recurrent):
    cell = Own


def through_a_file(value: Any, *own: Any) -> Any:
    memory = io.BytesIO()
    torch.save(value, memory)
    memory.seek(0)
    with torch.serialization.safe_globals([*engram.safe_globals(), *own]):
        return torch.load(memory, weights_only=True)


def run(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    if isinstance(layer, nn.ModuleList):
        return (layer[1](layer[0](x)[0]),)
    output = layer(x)
    return (output,) if isinstance(output, Tensor) else (output[0],)


QUICK = MODELS_OF_EACH_KIND | {"esbn"} | {name for name in LAYERS if name not in MODELS} - {"lstm, options"}


@pytest.mark.parametrize("name", slow_but(LAYERS, QUICK))
def test_every_layer(name: str) -> None:
    layer = LAYERS[name]()
    x = torch.randn(4, 3, 8, 8) if isinstance(layer, PixelCNN) else torch.randn(6, 4, 3)
    loaded = through_a_file(layer)
    assert repr(loaded) == repr(layer)
    for other in (loaded, copy.deepcopy(loaded), through_a_file(loaded)):
        assert all(torch.equal(a, b) for a, b in zip(run(other, x), run(layer, x), strict=True))
    for model in (layer, loaded):  # one step of training moves both alike
        torch.manual_seed(0)  # of those that sample
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run(model, x)[0].abs().square().sum().backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(run(loaded, x), run(layer, x), strict=True))


@pytest.mark.parametrize("name", ["exprnn", "rac", "lstm", "torch-lstm", "lem", "cornn", "sab", "s4", "relrnn"])
def test_a_state_beside_the_layer(name: str) -> None:
    layer, x = LAYERS[name](), torch.randn(6, 4, 3)
    saved = through_a_file({"layer": layer, "state": layer(x)[1]})
    assert torch.equal(saved["layer"](x, saved["state"])[0], layer(x, layer(x)[1])[0])


@pytest.mark.parametrize("name", ["esbn", "ntm", "mnm"])
def test_a_state_of_a_relational_network(name: str) -> None:
    state = LAYERS[name]().cell.initial_state(2)
    saved = through_a_file(state)
    assert type(saved) is type(state)
    assert all(torch.equal(a, b) for a, b in zip(parts(saved), parts(state), strict=True))


def test_a_class_of_your_own_is_yours_to_allow() -> None:
    layer, x = OwnRNN(3, 5, map="cayley"), torch.randn(6, 4, 3)
    with pytest.raises(pickle.UnpicklingError, match="OwnRNN"):
        through_a_file(layer)
    assert torch.equal(through_a_file(layer, Own, OwnRNN)(x)[0], layer(x)[0])


def test_the_list() -> None:
    listed = engram.safe_globals()
    assert len(set(listed)) == len(listed) > 60
    assert all(isinstance(entry, type) for entry in listed if entry not in (empty_cell, restored_state))
    assert {entry.__module__.partition(".")[0] for entry in listed} == {"engram", "torch"}
    layer = RNN(3, 5, map="cayley")  # classes made at run time, and those of other people, are not in it
    assert type(layer.cells[0]) not in listed
    assert Own not in listed


class Planted:
    """Pickles as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("kind", [nn.Linear, dict, os.system, "os.system", None, ExpRNN], ids=str)
def test_a_file_makes_no_other_class_through_us(kind: Any) -> None:
    with pytest.raises(DataError, match=r"must be of a subclass of engram.nn.BareCell"):
        empty_cell(kind)


def test_hostile_files(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for planted in (Planted(os.system, f"touch {mark}"), Planted(empty_cell, Planted(os.system, f"touch {mark}"))):
        with pytest.raises(pickle.UnpicklingError, match="system"):
            through_a_file({"layer": LAYERS["exprnn"](), "more": planted})
    assert not mark.exists()


@pytest.mark.parametrize("name", ["step", "__class__", "__del__", "__reduce_ex__", "weight_ih", "not a name"])
def test_a_planted_parametrization_hides_nothing_of_a_cell(name: str) -> None:
    layer = RNN(3, 5, map="cayley")
    lists = layer.cells[0].parametrizations
    lists._modules[name] = lists["weight_hh"]
    with pytest.raises(DataError, match=f"parametrizations of weights; '{name}' is not one"):
        through_a_file(layer)
