"""The custom operators as torch sees them: schema, fake tensors, autograd registration, second derivatives."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from engram.loops import additive, use

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")


def strided(tensor: Tensor) -> Tensor:
    return tensor.permute(*reversed(range(tensor.dim()))).contiguous().permute(*reversed(range(tensor.dim())))


CHECKS = {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"}
CASES = list(product(["tanh", "modrelu"], [False, True], [torch.float64, torch.complex128]))
# Layout of what comes in; gradients given of (states, final); gradients needed of (input, weights).
BACKWARD = [
    (strided, (True, True), (True, True)),
    (torch.clone, (True, False), (False, True)),
    (strided, (False, True), (True, False)),
]
SMOOTH = ["identity", "tanh", "sigmoid"]


@pytest.mark.parametrize(("activation", "packed", "dtype"), CASES)
def test_forward_operator(
    kernel: str, activation: str, packed: bool, dtype: torch.dtype, problem: Callable[..., Any]
) -> None:
    case = problem(activation=activation, packed=packed, dtype=dtype)
    for change in (torch.clone, strided):
        given = {k: change(v).requires_grad_() if k in LEAVES and v is not None else v for k, v in case.items()}
        with use(kernel):
            found = opcheck(torch.ops.engram.additive.default, tuple(given.values()))
        assert found == dict.fromkeys(CHECKS, "SUCCESS")


@pytest.mark.parametrize(("activation", "packed", "dtype"), CASES)
def test_backward_operator(
    kernel: str, activation: str, packed: bool, dtype: torch.dtype, problem: Callable[..., Any]
) -> None:
    """The strides it promises to torch.compile are those it returns, whatever comes in and whatever is needed."""
    case = problem(activation=activation, packed=packed, dtype=dtype)
    outputs = torch.ops.engram.additive(*case.values())
    for change, graded, needs in BACKWARD:
        leaves = [None if case[name] is None else change(case[name]) for name in LEAVES if name != "bias"]
        gradients = [change(torch.randn_like(o)) if on else None for o, on in zip(outputs, graded, strict=True)]
        arguments = (*gradients, *leaves, case["sizes"], outputs[0], activation, False, *needs)
        with use(kernel):
            found = opcheck(torch.ops.engram.additive_backward.default, arguments)
        assert found == dict.fromkeys(CHECKS, "SUCCESS")


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("activation", SMOOTH)
def test_gradcheck(kernel: str, activation: str, reverse: bool, packed: bool, problem: Callable[..., Any]) -> None:
    """First derivatives against finite differences: a truth that does not pass through our own formulas."""
    case = problem(3, 2, 2, 3, activation=activation, reverse=reverse, packed=packed)
    leaves = {name: case[name].requires_grad_() for name in LEAVES if case[name] is not None}

    def call(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return additive(**{**case, **dict(zip(leaves, tensors, strict=True))})

    with use(kernel):
        assert torch.autograd.gradcheck(call, tuple(leaves.values()))


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("activation", SMOOTH)
def test_second_derivatives(kernel: str, activation: str, packed: bool, problem: Callable[..., Any]) -> None:
    """Double backward is right (it goes through the plain loop), with respect to every tensor at once."""
    case = problem(3, 2, 2, 3, activation=activation, packed=packed)
    leaves = {name: case[name].requires_grad_() for name in LEAVES if case[name] is not None}

    def call(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return additive(**{**case, **dict(zip(leaves, tensors, strict=True))})

    with use(kernel):
        assert torch.autograd.gradgradcheck(call, tuple(leaves.values()))


def test_create_graph_gives_the_same_first_derivative(kernel: str, problem: Callable[..., Any]) -> None:
    """The two backward passes, hand-derived and through the plain loop, agree to rounding (float64)."""
    case = problem(6, 14, 3, 19, activation="modrelu", packed=True)
    weight = case["weight_hh"].requires_grad_()
    with use(kernel):
        loss = sum(out.square().sum() for out in additive(**case))
        assert isinstance(loss, Tensor)
        (fast,) = torch.autograd.grad(loss, weight, retain_graph=True)
        (slow,) = torch.autograd.grad(loss, weight, create_graph=True)
    assert not fast.requires_grad
    assert slow.requires_grad
    torch.testing.assert_close(fast, slow.detach(), rtol=0, atol=1e-10)
