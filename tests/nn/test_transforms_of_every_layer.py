"""Every recurrence, own cells among them, under torch's transforms and modes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, jvp
from torch.utils.flop_counter import FlopCounterMode

from engram import loops
from every_layer import COMPLEX, EVERY, FEATURES, GROWING, KINDS, REAL, sequence, tensors
from tiers import slow_but

TOLERANCE = 1e-10  # float64, the same mathematics by another road
# torch's own, when forward-mode differentiation is first used (torch/_decomp/decompositions_for_jvp.py)
forward_mode = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


OPTIONS = {
    "both ways, batch first",
    "trained start",
    "last step",
    "lstm, projected, both ways",
    "own cell with an integer",
}


@pytest.fixture(params=slow_but(EVERY | GROWING, {"memrnn", "sab"} | KINDS | OPTIONS | {"s4d", *COMPLEX}))
def layer(request: pytest.FixtureRequest) -> Any:
    return (EVERY | GROWING)[request.param](dtype=torch.float64)


def near(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found, right, atol=TOLERANCE, rtol=1e-9)


def energy(layer: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: layer(x)[0].abs().square().sum()


def test_grad_and_vmap(layer: Any) -> None:
    x = torch.stack([sequence(layer, 4, 2) for _ in range(3)])
    right = torch.stack([torch.autograd.functional.jacobian(energy(layer), each) for each in x])
    near(grad(energy(layer))(x[0]), right[0])
    near(torch.vmap(grad(energy(layer)))(x), right)
    assert float(right.abs().max()) > 0


@forward_mode
def test_jvp(layer: Any) -> None:
    x, along = sequence(layer, 4, 2), sequence(layer, 4, 2)
    right = (torch.autograd.functional.jacobian(energy(layer), x) * along).sum()
    near(jvp(energy(layer), (x,), (along,))[1], right)


def test_functional_call(layer: Any) -> None:
    x = sequence(layer, 4, 2)
    other = {name: 0.7 * p.detach() for name, p in layer.named_parameters()}
    found = functional_call(layer, other, (x,))[0]
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(0.7)
    near(found, layer(x)[0])


@pytest.mark.parametrize("name", slow_but(EVERY | GROWING, {"memrnn", "sab"} | KINDS | {"s4d", "complex"}))
def test_double_backward(name: str) -> None:
    layer = (EVERY | GROWING)[name](dtype=torch.float64)
    x = sequence(layer, 3, 2).requires_grad_()
    assert torch.autograd.gradgradcheck(energy(layer), (x,), atol=1e-5)


@pytest.mark.parametrize("name", slow_but(REAL, KINDS))
def test_autocast_keeps_the_dtype_of_the_weights(name: str) -> None:
    layer = REAL[name]()
    x = sequence(layer, 5, 2, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = layer(x)
    torch.testing.assert_close(found, layer(x)[0], atol=1e-6, rtol=1e-5)


def test_inference_mode(layer: Any) -> None:
    layer.eval()
    x = sequence(layer, 5, 2)
    with torch.inference_mode():
        found, _ = layer(x)
    near(found.clone(), layer(x)[0].detach())


def test_fake_tensors(layer: Any) -> None:
    """Shapes and dtypes without numbers, forward and backward."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        lead = (2, 5) if layer.batch_first else (5, 2)
        x = torch.empty(*lead, FEATURES, dtype=torch.float64, requires_grad=True)
        found = tensors(layer(x))
        found[0].abs().sum().backward()
    right = tensors(layer(sequence(layer, 5, 2)))
    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in right]
    assert x.grad is not None
    assert x.grad.shape == x.shape


def test_a_counter_sees_the_numbers(layer: Any) -> None:
    """FlopCounterMode is a dispatch mode: outputs are those without it."""
    x = sequence(layer, 5, 2)
    with FlopCounterMode(display=False):
        found, _ = layer(x)
    near(found, layer(x)[0])


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_layers_run_every_executor(name: str) -> None:
    layer = COMPLEX[name]()
    x = sequence(layer, 5, 2)
    with loops.use("plain"):
        right = layer(x)[0]
    near(layer(x)[0], right)
