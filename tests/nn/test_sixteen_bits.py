"""bfloat16, float16 and autocast: every layer and map computes, or says in one line what to do."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import nn

from engram.errors import DTypeError
from engram.maps import MAPS
from engram.models import MODELS
from engram.nn import RNN, Recurrent
from tiers import slow_but

COMPLEX = ("urnn", "full-capacity", "hyland-raetsch", "eurnn", "scurnn")


def under(map: str) -> Callable[..., Recurrent]:
    return lambda *sizes, **options: RNN(*sizes, map=map, **options)


LAYERS: dict[str, Callable[..., nn.Module]] = {
    **{name: entry.kind for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)},
    **{f"map {map}": under(map) for map in MAPS if map != "fourier"},
}
REAL = [name for name in LAYERS if name not in COMPLEX]
HALF = [torch.bfloat16, torch.float16]


@pytest.fixture
def default_bfloat16() -> Iterator[None]:
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(torch.float32)


def trains(layer: nn.Module, dtype: torch.dtype, compared: nn.Module | None = None) -> None:
    """Forward and backward in this dtype; near a layer of the same weights in float32."""
    x = torch.linspace(-1, 1, 24).view(4, 2, 3)
    output, _ = layer(x.to(dtype))
    assert {p.dtype for p in layer.parameters()} == {dtype}
    assert output.dtype == dtype
    output.float().square().sum().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in layer.parameters())
    if compared is not None:
        # 4 steps, 2 layers, sums of 5 terms of about 1: some 50 roundings, each of eps/2 of the largest number
        right = compared(x)[0].detach()
        tolerance = 25 * torch.finfo(dtype).eps * float(right.abs().max().clamp(min=1))
        torch.testing.assert_close(output.float(), right, atol=tolerance, rtol=0)


IN_TURN = [(name, HALF[k % 2]) for k, name in enumerate(REAL)]
"""Every layer in one of the dtypes."""


@pytest.mark.parametrize(("name", "dtype"), slow_but(product(REAL, HALF), IN_TURN))
def test_a_converted_layer(name: str, dtype: torch.dtype) -> None:
    layer = LAYERS[name](3, 5, 2)
    small = LAYERS[name](3, 5, 2)
    small.load_state_dict(layer.state_dict())
    trains(small.to(dtype), dtype, layer)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.usefixtures("default_bfloat16")
def test_the_default_dtype(name: str) -> None:
    trains(LAYERS[name](3, 5, 2), torch.bfloat16)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_layers_say_what_to_do(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(4, 2, 3)
    for layer in (LAYERS[name](3, 5).to(dtype), LAYERS[name](3, 5, dtype=dtype), LAYERS[name](3, 5).double().to(dtype)):
        assert layer(x)[0].dtype == torch.float32  # it stays in complex64, all its real numbers in float32
        with pytest.raises(DTypeError, match=r"no complex numbers of 16 bits .* input.to\(torch.float32\)$"):
            layer(x.to(dtype))


@pytest.mark.usefixtures("default_bfloat16")
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_layers_under_the_default_dtype(name: str) -> None:
    layer = LAYERS[name](3, 5)
    assert layer(torch.randn(4, 2, 3, dtype=torch.float32))[0].dtype == torch.float32
    with pytest.raises(DTypeError, match="no complex numbers of 16 bits"):
        layer(torch.randn(4, 2, 3))


@pytest.mark.parametrize("name", LAYERS)
def test_made_inside_autocast(name: str) -> None:
    """The same numbers as outside, from the same seed; and a weight can be assigned there."""
    made = []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            layer = LAYERS[name](3, 5, 2)
            cell = layer.cells[0]  # type: ignore[index]
            for weight in getattr(cell, "parametrizations", ()) if name != "urnn" else ():  # which has no inverse
                setattr(cell, weight, getattr(cell, weight).detach())
            penalty = layer.penalty()  # type: ignore[operator]
        made.append({**layer.state_dict(), "penalty": penalty.detach()})
    for key, value in made[0].items():
        assert torch.equal(made[1][key], value), key


@pytest.mark.parametrize("map", ["householder", "schur", "givens"])
def test_a_matrix_of_16_bits_is_refused_by_maps_without_an_inverse_there(map: str) -> None:
    layer = RNN(3, 4, map=map)
    matrix = layer.weight_hh_l0.detach().bfloat16()
    with pytest.raises(DTypeError, match=r"takes matrices in float32 or float64, got torch.bfloat16"):
        layer.bfloat16().weight_hh_l0 = matrix
