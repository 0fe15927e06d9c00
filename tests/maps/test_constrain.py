"""``engram.maps.orthogonal(module, "weight")``: one line for any module with a matrix."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import engram
from engram.errors import DTypeError, OptionError, ShapeError
from engram.maps import Cayley, Exponential, Householder, StiefelStep, attach, haar, orthogonal, orthogonality_error
from engram.maps._constrain import ORTHOGONAL

F64 = torch.float64
REAL = [name for name in ORTHOGONAL if name != "fourier"]
MODULES: dict[str, tuple[Any, str, Any]] = {  # a module, its weight, an input
    "linear": (lambda: nn.Linear(5, 5, dtype=F64), "weight", torch.randn(2, 5, dtype=F64)),
    "rnn": (lambda: nn.RNN(3, 5, dtype=F64), "weight_hh_l0", torch.randn(4, 2, 3, dtype=F64)),
    "rnn cell": (lambda: nn.RNNCell(3, 5, dtype=F64), "weight_hh", torch.randn(2, 3, dtype=F64)),
    "engram": (lambda: engram.nn.RNN(3, 5, 2, dtype=F64), "weight_hh_l1", torch.randn(4, 2, 3, dtype=F64)),
    "tall": (lambda: nn.Linear(3, 5, dtype=F64), "weight", torch.randn(2, 3, dtype=F64)),
    "wide": (lambda: nn.Linear(5, 3, dtype=F64), "weight", torch.randn(2, 5, dtype=F64)),
}


def error(matrix: torch.Tensor) -> float:
    return orthogonality_error(matrix if matrix.shape[0] >= matrix.shape[1] else matrix.mT)


def train(module: nn.Module, x: torch.Tensor, steps: int = 20) -> None:
    stiefel = any(isinstance(m, engram.maps.Stiefel) for m in module.modules())
    optimiser: Any = StiefelStep if stiefel else torch.optim.Adam
    names = [p for n, p in module.named_parameters() if "parametrizations" in n]
    step = optimiser(names, lr=0.05)
    attach(step, module)
    for _ in range(steps):
        step.zero_grad()
        output = module(x, torch.ones(2, 5, dtype=F64)) if isinstance(module, nn.RNNCell) else module(x)
        output = output[0] if isinstance(output, tuple) else output
        (output - 1).square().sum().backward()
        step.step()


@pytest.mark.parametrize(
    ("name", "map"),
    [(name, map) for name in MODULES for map in REAL if map != "stiefel" or name not in ("tall", "wide")],
)
def test_stays_orthogonal_and_moves(name: str, map: str) -> None:
    make, weight, x = MODULES[name]
    module = make()
    assert orthogonal(module, weight, map) is module
    before = getattr(module, weight).detach().clone()
    assert error(before) < 1e-12
    train(module, x)
    after = getattr(module, weight).detach()
    assert error(after) < 1e-12  # rounding of some twenty products of 5 x 5 matrices
    assert float((after - before).abs().max()) > 0.01
    again = orthogonal(make(), weight, map)
    again.load_state_dict(module.state_dict())
    assert torch.equal(getattr(again, weight), after)
    if name != "rnn":  # torch cannot copy its own RNN with a parametrized weight after a call
        assert torch.equal(getattr(copy.deepcopy(module), weight), after)


@pytest.mark.parametrize("shape", [(6, 6), (6, 4), (4, 6)])
@pytest.mark.parametrize("map", ["exponential", "cayley", "householder", "scaled-cayley", "projected"])
def test_an_orthogonal_weight_keeps_its_value(map: str, shape: tuple[int, int]) -> None:
    layer = nn.Linear(shape[1], shape[0], dtype=F64)
    matrix = haar(6, torch.Generator().manual_seed(3))[: shape[0], : shape[1]]
    if map == "scaled-cayley" and shape == (6, 6) and torch.linalg.det(matrix) > 0:
        matrix[0] *= -1  # of the determinant that three signs give
    with torch.no_grad():
        layer.weight.copy_(matrix)
    orthogonal(layer, map=map)
    torch.testing.assert_close(layer.weight, matrix, atol=1e-12, rtol=0)


def test_another_weight_is_sampled_by_the_law_of_the_map() -> None:
    torch.manual_seed(1)
    layer = orthogonal(nn.Linear(6, 6, dtype=F64), "weight", "exponential", init="identity")
    assert torch.equal(layer.weight, torch.eye(6, dtype=F64))
    layer = orthogonal(nn.Linear(6, 6), map="householder", reflections=2)
    assert layer.parametrizations.weight[0].reflections == 2
    assert int(torch.linalg.matrix_rank(layer.weight.detach() - torch.eye(6), atol=1e-4)) == 2


def test_a_map_without_a_formula_starts_anew() -> None:
    """Of an orthogonal weight that it holds its parameters could not be found: it is sampled, not refused."""
    matrix = haar(20, torch.Generator().manual_seed(3), complex=True)
    for map, options in (("fourier", {}), ("givens", {"layers": 3}), ("givens", {"layers": "fft"})):
        layer = nn.Linear(20, 20, dtype=torch.complex128)
        layer.weight.data.copy_(matrix)
        weight = orthogonal(layer, map=map, **options).weight.detach()
        assert orthogonality_error(weight) < 1e-12
        assert float((weight - matrix).abs().max()) > 0.1


def test_a_map_or_a_class_in_place_of_a_name() -> None:
    for made in (Cayley(5), Cayley, lambda n: Exponential(n, init="henaff")):
        assert error(orthogonal(nn.Linear(5, 5, dtype=F64), map=made).weight.detach()) < 1e-12
    tall = orthogonal(nn.Linear(3, 5, dtype=F64), map=Householder)
    assert error(tall.weight.detach()) < 1e-12


@pytest.mark.parametrize("map", [name for name in ORTHOGONAL if name != "householder"])
def test_a_complex_weight_is_unitary(map: str) -> None:
    layer = orthogonal(nn.Linear(6, 6, dtype=torch.complex128), map=map)
    assert layer.weight.is_complex()
    assert orthogonality_error(layer.weight.detach()) < 1e-12


def test_it_can_be_taken_away_again() -> None:
    layer = orthogonal(nn.Linear(4, 4, dtype=F64))
    matrix = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    torch.testing.assert_close(layer.weight.detach(), matrix, atol=1e-14, rtol=0)


def test_assignment_of_a_rectangle() -> None:
    layer = orthogonal(nn.Linear(3, 5, dtype=F64))
    matrix = haar(5)[:, :3]
    layer.weight = matrix
    torch.testing.assert_close(layer.weight.detach(), matrix, atol=1e-14, rtol=0)
    with pytest.raises(engram.EngramError, match=r"must be of orthonormal columns .* away"):
        layer.weight = 2 * matrix


WRONG = {
    "no module": (lambda: orthogonal(torch.eye(3)), DTypeError, "takes a torch.nn.Module"),
    "no weight": (
        lambda: orthogonal(nn.Linear(3, 3), "wieght"),
        OptionError,
        "unknown matrix 'wieght' of Linear.*'weight'",
    ),
    "no matrix": (lambda: orthogonal(nn.Conv2d(3, 3, 3)), ShapeError, r"has the shape \(3, 3, 3, 3\)"),
    "nothing": (lambda: orthogonal(nn.ReLU()), OptionError, "ReLU has no parameter 'weight', and no matrix"),
    "map": (lambda: orthogonal(nn.Linear(3, 3), map="cayly"), OptionError, "Did you mean 'cayley'"),
    "not orthogonal": (lambda: orthogonal(nn.Linear(3, 3), map="schur"), OptionError, "unknown orthogonal map 'schur'"),
    "option": (lambda: orthogonal(nn.Linear(3, 3), int="haar"), OptionError, "Did you mean 'init'"),
    "options of none": (lambda: orthogonal(nn.Linear(3, 3), map=Cayley, init="haar"), OptionError, "by name"),
    "rectangle": (lambda: orthogonal(nn.Linear(3, 4), map="stiefel"), OptionError, "stiefel keeps square matrices"),
    "twice": (lambda: orthogonal(orthogonal(nn.Linear(3, 3))), OptionError, "parametrized already"),
    "no name": (lambda: orthogonal(nn.Linear(3, 3), None), DTypeError, "the name of its weight, got NoneType"),  # type: ignore[arg-type]
    "under a map": (lambda: orthogonal(engram.nn.ExpRNN(3, 4), "weight_hh_l0"), OptionError, "is no parameter"),
    "no rows": (lambda: orthogonal(nn.Embedding(0, 3)), ShapeError, r"needs a matrix, .* \(0, 3\)"),
    "real map": (
        lambda: orthogonal(nn.Linear(3, 3, dtype=torch.complex64), map="householder"),
        DTypeError,
        "gives torch.float32 matrices, and weight is torch.complex64",
    ),
    "complex map": (lambda: orthogonal(nn.Linear(3, 3), map="fourier"), DTypeError, "torch.complex64"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls(call: str) -> None:
    make, kind, message = WRONG[call]
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize("map", REAL)
def test_half_precision(map: str) -> None:
    """Whether the weight is orthogonal already is found out in float32: torch has no factorisations below it."""
    layer = orthogonal(nn.Linear(5, 5, dtype=torch.bfloat16), map=map)
    assert error(layer.weight.detach().double()) < 5 * 2**-7  # 5 products of entries rounded to 8 bits


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (6, 5), (5, 6)])
@pytest.mark.parametrize("map", ["givens", "scaled-cayley"])
def test_whatever_completes_a_rectangle_it_keeps_its_value(map: str, shape: tuple[int, int]) -> None:
    """These maps have one determinant: of half of the rectangles what completes them must be turned over."""
    for seed in range(8):
        matrix = haar(6, torch.Generator().manual_seed(seed))[: shape[0], : shape[1]]
        layer = nn.Linear(shape[1], shape[0], dtype=F64)
        layer.weight.data.copy_(matrix)
        torch.testing.assert_close(orthogonal(layer, map=map).weight, matrix, atol=1e-10, rtol=0)
