"""The five verbs of every map, at every size: sample, contains, right_inverse, forward, extra_repr."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.maps import MAPS, Map, Orthogonal

NAMES = ("free", "exponential", "cayley")  # the others are in test_family.py

SIZES = [1, 2, 3, 8, 33]


@pytest.fixture(params=[(name, size) for name in NAMES for size in SIZES], ids=lambda p: f"{p[0]}-{p[1]}")
def made(request: pytest.FixtureRequest) -> Map:
    """Each map at each size."""
    name, size = request.param
    return MAPS[name](size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sample_keeps_the_promise(made: Map, dtype: torch.dtype) -> None:
    for _ in range(3):
        matrix = made.sample(dtype=dtype)
        assert (matrix.shape, matrix.dtype) == ((made.size, made.size), dtype)
        assert not matrix.requires_grad
        assert made.contains(matrix)


def test_sample_is_seeded(made: Map) -> None:
    """The same generator state gives the same matrix, and the next draw is another one."""
    one, two = (torch.Generator().manual_seed(5) for _ in range(2))
    first = made.sample(one, dtype=torch.float64)
    assert first.equal(made.sample(two, dtype=torch.float64))
    draws = [made.sample(one, dtype=torch.float64) for _ in range(16)]
    alone = made.size == 1 and isinstance(made, Orthogonal)  # SO(1) is one matrix
    assert alone or any(not draw.equal(first) for draw in draws)


def test_assigned_matrix_comes_back(made: Map) -> None:
    """forward(right_inverse(W)) = W, to 1e-12 in float64: one product with the identity."""
    for _ in range(3):
        matrix = made.sample(dtype=torch.float64)
        made.double()
        torch.testing.assert_close(made(made.right_inverse(matrix)), matrix, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])  # finite differences of larger ones take seconds
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_forward(name: str, size: int) -> None:
    """gradcheck, at the base point (A = 0) and away from it."""
    made = MAPS[name](size).double()
    free = made.right_inverse(made.sample(dtype=torch.float64))
    for point in (free, free + 0.3 * torch.randn_like(free)):
        assert torch.autograd.gradcheck(made, point.clone().requires_grad_())


def test_registered_on_any_module(made: Map) -> None:
    """As torch.nn.utils.parametrize wants it: read, assigned, and still what was assigned."""
    layer = nn.Linear(made.size, made.size, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(made.sample(dtype=torch.float64))
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", made.double())
    torch.testing.assert_close(layer.weight.detach(), before, rtol=0, atol=1e-12)
    new = made.sample(dtype=torch.float64)
    layer.weight = new
    torch.testing.assert_close(layer.weight.detach(), new, rtol=0, atol=1e-12)
    x = torch.randn(4, made.size, dtype=torch.float64)
    torch.testing.assert_close(layer(x), x @ new.T, rtol=0, atol=1e-12)


def test_free_parameters(made: Map) -> None:
    """N(N-1)/2 of them for an orthogonal matrix, N^2 for any."""
    n = made.size
    free: Tensor = made.right_inverse(made.sample())
    assert free.numel() == (n * (n - 1) // 2 if isinstance(made, Orthogonal) else n * n)


def test_said_in_words(made: Map) -> None:
    assert repr(made) == f"{type(made).__name__}({made.size})"
    assert made.promise
    assert made.equation.startswith("W = ")


@pytest.mark.parametrize("name", NAMES)
def test_on_another_device(name: str) -> None:
    """Nothing in a map assumes the CPU."""
    made = MAPS[name](4).to("meta")
    matrix = torch.empty(4, 4, device="meta")
    assert made(made.free(matrix)).device.type == "meta"
    assert MAPS[name](4).sample(device="cpu").device.type == "cpu"
