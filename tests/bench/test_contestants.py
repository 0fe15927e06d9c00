"""Every contestant computes what it is said to compute: a race against a different model would prove nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from engram.bench._contestants import GeotorchRNN, LoopRNN, contestants, training_step
from engram.bench._floor import floor, products_of
from engram.bench._size import Size
from engram.loops import _torch, status
from engram.loops._compile import Variant
from engram.loops._compiled import Loops
from engram.maps import orthogonality_error
from engram.nn import RNN

SIZE = Size(T=5, B=3, H=4, D=2)
ASKED = {"engram", "engram-modrelu", "engram-exponential", "engram-cayley", "engram-uncompiled", "torch.nn.RNN",
         "torch.nn.LSTM", "python-loop", "floor"}  # fmt: skip


@torch.no_grad()
def twins(activation: str) -> tuple[LoopRNN, RNN]:
    """The Python loop and the engram layer with the same weights, in float64."""
    loop, layer = LoopRNN(2, 4, activation).double(), RNN(2, 4, activation=activation).double()
    (cell,) = layer.cells
    cell.weight_ih.copy_(loop.input.weight)
    cell.bias.copy_(loop.input.bias)
    cell.weight_hh.copy_(loop.recurrent.weight)
    if loop.mod_bias is not None:
        loop.mod_bias.copy_(cell.mod_bias)
    return loop, layer


@pytest.mark.parametrize("activation", ["tanh", "modrelu"])
def test_the_loop_is_the_layer(activation: str) -> None:
    """Outputs, final state and weight gradients: 1e-12, float64 rounding of five steps."""
    loop, layer = twins(activation)
    x, g = torch.randn(5, 3, 2).double(), torch.randn(5, 3, 4).double()
    (slow, slow_last), (fast, fast_last) = loop(x), layer(x)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    torch.testing.assert_close(fast_last[0], slow_last, rtol=0, atol=1e-12)
    for model in (loop, layer):
        training_step(model, x, g)()
    (cell,) = layer.cells
    pairs = [(loop.input.weight, cell.weight_ih), (loop.input.bias, cell.bias), (loop.recurrent.weight, cell.weight_hh)]
    for slow_weight, fast_weight in pairs:
        assert slow_weight.grad.abs().max() > 0
        torch.testing.assert_close(fast_weight.grad, slow_weight.grad, rtol=0, atol=1e-12)


def test_a_training_step_starts_afresh() -> None:
    """Called twice, the gradient is that of one call: zeroed, and not left out."""
    layer = nn.RNN(2, 4)
    call = training_step(layer, torch.randn(5, 3, 2), torch.randn(5, 3, 4))
    call()
    first = layer.weight_hh_l0.grad.clone()
    call()
    assert first.abs().max() > 0
    assert layer.weight_hh_l0.grad.equal(first)


def test_geotorch_cell_is_orthogonal() -> None:
    """As a user of geotorch writes it: the loop above, with its orthogonal kernel and modReLU."""
    pytest.importorskip("geotorch")
    cell = GeotorchRNN(2, 4).double()
    x = torch.randn(5, 3, 2).double()
    plain = LoopRNN(2, 4, "modrelu").double()
    with torch.no_grad():
        plain.input.load_state_dict(cell.input.state_dict())
        plain.recurrent.weight.copy_(cell.recurrent.weight)
    assert orthogonality_error(cell.recurrent.weight.detach()) < 1e-5  # drawn in float32
    torch.testing.assert_close(cell(x)[0], plain(x)[0], rtol=0, atol=1e-12)


def test_everyone_asked_for_is_there_and_runs() -> None:
    found = contestants(SIZE)
    assert found.keys() >= ASKED
    for call in found.values():
        call()


def test_executors_are_those_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "uncompiled" runs the loop of torch operations, the others the best there is."""
    if not status()["float32"].startswith("compiled"):
        pytest.skip(status()["float32"])
    used: list[object] = []
    chosen = Variant.executor
    monkeypatch.setattr(Variant, "executor", lambda *a: used.append(chosen(*a)) or used[-1])
    for name, call in contestants(SIZE).items():
        used.clear()
        call()
        if name.startswith(("engram", "ExpRNN", "ScoRNN", "NonNormalRNN")):
            assert len(used) == 2, name  # forward, backward
            by_torch = [executor is _torch.run for executor in used]
            assert by_torch == [name.endswith("uncompiled")] * 2, name
            assert all(isinstance(executor, Loops) for executor in used if executor is not _torch.run)
        else:
            assert not used, name


def test_the_floor_is_the_bare_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiplications of a forward and backward pass: 2 T B H^2 in the loops, T B H (H + 2 D) around them."""
    products = products_of(RNN(SIZE.D, SIZE.H))
    assert products is not None
    call: Callable[[], None] = floor(products, SIZE)
    counted: list[int] = []
    multiply = torch.mm

    def count(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        counted.append(a.shape[0] * a.shape[1] * b.shape[1])
        return multiply(a, b, out=out)

    monkeypatch.setattr(torch, "mm", count)
    call()
    rows = SIZE.T * SIZE.B
    assert sum(counted) == 2 * rows * SIZE.H**2 + rows * SIZE.H * (SIZE.H + 2 * SIZE.D)
    assert len(counted) == 2 * SIZE.T + 3
    assert products.flops(SIZE) == 2 * sum(counted)
