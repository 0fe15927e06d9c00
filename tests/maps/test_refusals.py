"""What a map refuses: matrices outside its promise, wrong shapes, complex numbers; each with the reason."""

import math
import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.errors import DTypeError, ManifoldError, OptionError, ShapeError
from engram.maps import MAPS, Free, Orthogonal, orthogonality_error, rounding

ORTHOGONAL = [name for name, made in MAPS.items() if issubclass(made, Orthogonal)]

# Matrix (3, 3), and its largest entry of |W^T W - I|.
OUTSIDE: dict[str, tuple[Tensor, float]] = {
    "twice the identity": (2 * torch.eye(3), 3.0),
    "zero": (torch.zeros(3, 3), 1.0),
    "a shear": (torch.eye(3) + torch.tensor([[0, 0.5, 0], [0, 0, 0], [0, 0, 0]]), 0.5),
    "not a number": (torch.full((3, 3), math.nan), math.inf),
    "one infinity": (torch.eye(3).index_fill(0, torch.tensor([0]), math.inf), math.inf),
    "just outside": (torch.eye(3) * (1 + 1e-3), 2.001e-3),
}


def test_there_is_something_to_refuse() -> None:
    assert {"exponential", "cayley"} <= set(ORTHOGONAL)


@pytest.mark.parametrize("case", OUTSIDE)
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_outside_the_promise(name: str, case: str) -> None:
    """The message gives the promise, the distance, and what to do."""
    matrix, distance = OUTSIDE[case]
    made = MAPS[name](3)
    assert made.distance(matrix) == pytest.approx(distance, rel=1e-3)
    assert not made.contains(matrix)
    said = re.escape(f"must be orthogonal (W^* W = I); the one assigned is {made.distance(matrix):.3g} away")
    with pytest.raises(ManifoldError, match=said + r".*Assign map\.sample\(\)"):
        made.right_inverse(matrix)
    assert made.base.equal(torch.eye(3)), "a refused matrix left a trace"


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_refused_by_the_module_too(name: str) -> None:
    """And after a refusal the module is what it was."""
    layer = nn.Linear(3, 3, bias=False)
    nn.init.orthogonal_(layer.weight)
    parametrize.register_parametrization(layer, "weight", MAPS[name](3))
    before = layer.weight.detach().clone()
    with pytest.raises(ManifoldError):
        layer.weight = torch.ones(3, 3)
    assert layer.weight.detach().equal(before)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (3,), (3, 3, 3), ()])
@pytest.mark.parametrize("name", MAPS)
def test_wrong_shape(name: str, shape: tuple[int, ...]) -> None:
    matrix = torch.eye(4) if shape == (4, 4) else torch.zeros(shape)
    made = MAPS[name](3)
    assert not made.contains(matrix)
    with pytest.raises(
        ShapeError, match=rf"{type(made).__name__} is a map to 3 x 3 matrices, got {re.escape(str(shape))}"
    ):
        made.right_inverse(matrix)


@pytest.mark.parametrize("name", ["householder", "schur", "spectral-margin"])
def test_complex_is_refused_by_a_real_map(name: str) -> None:
    with pytest.raises(DTypeError, match=r"is a map to real matrices, got torch.complex64. Use .* map='free'"):
        MAPS[name](2).right_inverse(torch.eye(2, dtype=torch.complex64))


def test_free_takes_complex() -> None:
    made = Free(2)
    matrix = made.sample(dtype=torch.complex128)
    assert matrix.imag.abs().min() > 0
    assert made(made.right_inverse(matrix)).equal(matrix)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(
    ("size", "error"), [(0, OptionError), (-1, OptionError), (2.0, DTypeError), (True, DTypeError)]
)
def test_wrong_size(name: str, size: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="size of a map must be"):
        MAPS[name](size)  # type: ignore[arg-type]


def test_tolerance_is_that_of_the_dtype() -> None:
    """1e-4 in float32, 1e-10 in float64, or what is asked for."""
    assert [rounding(kind) for kind in (torch.float64, torch.complex128)] == [1e-10] * 2
    assert [rounding(kind) for kind in (torch.float32, torch.complex64)] == [1e-4] * 2
    assert [rounding(kind) for kind in (torch.bfloat16, torch.float16)] == [0.1] * 2
    made = MAPS["cayley"](3)
    for kind in (torch.float32, torch.float64):  # of (1 + x) I the distance is 2 x + x^2
        for share, inside in ((0.9, True), (1.1, False)):
            assert made.contains(torch.eye(3, dtype=kind) * (1 + share * rounding(kind) / 2)) == inside
    nearly = torch.eye(3, dtype=torch.float64) * (1 + 1e-8)
    assert orthogonality_error(nearly) == pytest.approx(2e-8, rel=1e-6)
    assert made.contains(nearly.float())
    assert not made.contains(nearly)
    assert made.contains(nearly, eps=1e-7)
