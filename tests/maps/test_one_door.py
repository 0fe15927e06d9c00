"""Assignment, drawing and reloading on a living layer: nothing happens behind its back."""

import copy
import pickle
from typing import Any

import pytest
import torch
from table_of_maps import FAMILY
from torch import nn

from engram.errors import DTypeError, ManifoldError, OptionError
from engram.maps import Schur, Stiefel, StiefelStep, attach, free_parameters
from engram.nn import IRNN, RNN, URNN, ExpRNN, NonNormalRNN, OrthInitRNN, ScuRNN


def install(name: str, size: int) -> tuple[Any, Any]:
    module, map = nn.Module(), FAMILY[name](size)
    map.install(module, "weight", dtype=torch.float64)
    return module, map


@pytest.mark.parametrize("name", FAMILY)
def test_sampling_leaves_the_matrix_alone(name: str) -> None:
    module, map = install(name, 6)
    before = module.weight.detach().clone()
    drawn = map.sample()  # in another precision, even
    assert torch.equal(module.weight, before)
    assert not torch.equal(drawn.to(before.dtype), before)


NO_FORMULA = ("fourier", "givens, L=3", "givens, fft", "givens, fft, complex", "spectral-reflections, m=1")


@pytest.mark.parametrize("name", [name for name in FAMILY if name not in NO_FORMULA])
def test_a_trained_matrix_comes_back(name: str) -> None:
    """Where there is a formula for the inverse, also away from the start; test_round_trip.py has the others."""
    module, map = install(name, 6)
    assert map.has_inverse
    with torch.no_grad():
        for f in free_parameters(module.parametrizations.weight):
            f.add_(torch.randn_like(f), alpha=0.3 if name != "stiefel" and name != "projected" else 0.0)
    matrix = module.weight.detach().clone()
    module.weight = matrix
    assert float((module.weight.detach() - matrix).abs().max()) < 1e-9


def test_which_maps_have_no_formula() -> None:
    assert {name for name, make in FAMILY.items() if not make(6).has_inverse} == set(NO_FORMULA)


@pytest.mark.parametrize("name", FAMILY)
def test_reloaded_and_copied(name: str) -> None:
    module, _ = install(name, 5)
    other, _ = install(name, 5)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.weight, module.weight)
    assert torch.equal(copy.deepcopy(module).weight, module.weight)


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "free"])  # which is a plain parameter
def test_pickled(name: str) -> None:
    """A layer with the map, away from its start: the same numbers, the same state dict, and it can be trained on."""
    complex = install(name, 5)[0].weight.is_complex()
    layer = RNN(3, 5, map=FAMILY[name], dtype=torch.complex128 if complex else torch.float64)
    with torch.no_grad():
        if name not in ("stiefel", "projected"):  # these store the matrix itself
            for f in free_parameters(layer.cells[0].parametrizations.weight_hh):
                f.add_(torch.randn_like(f), alpha=0.3)
    again = pickle.loads(pickle.dumps(layer))
    assert again is not layer
    assert torch.equal(again.weight_hh_l0, layer.weight_hh_l0)
    assert again.state_dict().keys() == layer.state_dict().keys()
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    assert torch.equal(again(x)[0], layer(x)[0])
    again(x)[0].abs().square().sum().backward()
    assert all(p.grad is not None for p in free_parameters(again.cells[0].parametrizations.weight_hh) if p.numel())


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_block_mask_takes_its_own_matrices(n: int) -> None:
    """In whatever order LAPACK finds the blocks."""
    taken = 0
    for _ in range(20):
        map = Schur(n, "block", init="haar")
        entries, lower, theta, gamma = map.sample_free(None)
        matrix = map.double_forward(entries, 0.5 * torch.randn_like(lower), theta, gamma * 0.9)
        found = map.right_inverse(matrix)
        assert float((map.double_forward(*found) - matrix).abs().max()) < 1e-9
        taken += 1
    assert taken == 20


def test_presets_take_no_other_map_and_from_torch_refuses() -> None:
    with pytest.raises(OptionError, match=r"ExpRNN is an RNN under one map and takes no other, got map='cayley'"):
        ExpRNN(3, 4, map="cayley")
    with pytest.raises(OptionError, match=r"IRNN is an RNN under one map"):
        IRNN(3, 4, map="cayley")
    with pytest.raises(ManifoldError, match="away"):
        ExpRNN.from_torch(nn.RNN(3, 4))
    with pytest.raises(OptionError, match=r"unknown option 'activaton' of RNN.*Did you mean 'activation'"):
        RNN(3, 4, activaton="relu")
    assert RNN(3, 4, nonlinearity="relu").cells[0].activation == "relu"


def test_reset_draws_everything_anew() -> None:
    for layer in (NonNormalRNN(3, 6), IRNN(3, 6), OrthInitRNN(3, 6), URNN(3, 6), RNN(3, 6, activation="modrelu")):
        before = copy.deepcopy(layer)
        layer.reset_parameters()
        assert not torch.equal(layer.weight_ih_l0, before.weight_ih_l0)
        if isinstance(layer, IRNN):
            assert torch.equal(layer.weight_hh_l0, torch.eye(6))
        else:
            assert not torch.equal(layer.weight_hh_l0, before.weight_hh_l0)


def test_precision_of_a_complex_layer() -> None:
    for layer in (URNN(3, 5), ScuRNN(3, 5, 2)):
        expected, _ = layer(torch.ones(4, 1, 3))
        for wide in (copy.deepcopy(layer).double(), copy.deepcopy(layer).to(torch.float64)):
            found, state = wide(torch.ones(4, 1, 3, dtype=torch.float64))
            assert state.dtype == torch.complex128
            assert float((found - expected).detach().abs().max()) < 1e-5
        assert pickle.loads(pickle.dumps(layer))(torch.ones(4, 1, 3))[0].equal(expected)


def test_a_complex_map_needs_a_complex_layer() -> None:
    with pytest.raises(DTypeError, match=r"gives torch.complex64 matrices.*dtype=torch.complex64"):
        RNN(3, 4, map="fourier")


def test_attach_knows_its_optimiser() -> None:
    layer = ExpRNN(2, 4, rebase_every=2)
    entry = layer.cells[0].parametrizations.weight_hh
    others = [p for p in layer.parameters() if p is not entry.original]
    mine, theirs = torch.optim.SGD([entry.original], lr=0.1), torch.optim.SGD(others, lr=0.1)
    attach(mine, layer)
    attach(theirs, layer)
    for _ in range(2):
        layer(torch.randn(3, 1, 2))[0].sum().backward()
        mine.step()
        theirs.step()
    assert int(entry[0].steps) == 2  # once an iteration, whatever the number of optimisers
    with pytest.raises(OptionError, match="moves no parameter of this model"):
        attach(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), layer)
    module = nn.Module()
    Stiefel(4).install(module, "w")
    with pytest.raises(OptionError, match=r"must be moved by engram.maps.StiefelStep; Adam holds it"):
        attach(torch.optim.Adam(module.parameters()), module)
    with pytest.raises(ManifoldError, match="moves orthogonal or unitary"):
        StiefelStep([torch.ones(3, 3)])
