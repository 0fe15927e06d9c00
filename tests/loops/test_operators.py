"""The custom operators as torch sees them: schema, fake tensors, autograd registration, second derivatives."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from recurrences import additive, additive_cell
from torch import Tensor
from torch.library import opcheck

import engram.loops._operator  # noqa: F401  (registers the operators)
from engram.loops import Compiled, compiled_cell, use
from tiers import slow, slow_but

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")


def strided(tensor: Tensor) -> Tensor:
    return tensor.permute(*reversed(range(tensor.dim()))).contiguous().permute(*reversed(range(tensor.dim())))


CHECKS = {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"}
CASES = list(product(["tanh", "modrelu"], [False, True], [torch.float64, torch.complex128]))
QUICK = [("tanh", True, torch.float64), ("modrelu", False, torch.complex128)]
# Layout of what comes in; gradients given of (states, final); gradients needed of (input and start, weights).
BACKWARD = [
    (strided, (True, True), (True, True)),
    (torch.clone, (True, False), (False, True)),
    (strided, (False, True), (True, False)),
]


def taken_apart(case: dict[str, Any]) -> tuple[Compiled, list[Tensor]]:
    """The loop of a problem's cell, and the tensors that its operator is given."""
    cell = additive_cell(*(case[name] for name in ("weight_ih", "bias", "weight_hh", "mod_bias", "activation")))
    found = compiled_cell(cell)
    return found, [case["input"], case["start"], *(case[name] for name in found.traced.names)]


@pytest.mark.parametrize("keep", [slow(False), True])
@pytest.mark.parametrize(("activation", "packed", "dtype"), slow_but(CASES, QUICK))
def test_forward_operator(
    executor: str, activation: str, packed: bool, dtype: torch.dtype, keep: bool, problem: Callable[..., Any]
) -> None:
    case = problem(activation=activation, packed=packed, dtype=dtype)
    found, tensors = taken_apart(case)
    for change in (torch.clone, strided):
        given = [change(tensor).requires_grad_(keep) for tensor in tensors]
        with use(executor):
            checked = opcheck(torch.ops.engram.loop.default, (given, case["sizes"], found.key, False, True, keep))
        assert checked == dict.fromkeys(CHECKS, "SUCCESS")


@pytest.mark.parametrize(("activation", "packed", "dtype"), slow_but(CASES, QUICK))
def test_backward_operator(
    executor: str, activation: str, packed: bool, dtype: torch.dtype, problem: Callable[..., Any]
) -> None:
    """The strides it promises to torch.compile are those it returns, whatever comes in and whatever is needed."""
    case = problem(activation=activation, packed=packed, dtype=dtype)
    found, tensors = taken_apart(case)
    output, final, *kept = torch.ops.engram.loop(tensors, case["sizes"], found.key, False, True, True)
    for change, graded, (of_input, of_weights) in BACKWARD:
        gradients = [change(torch.randn_like(o)) if on else None for o, on in zip((output, final), graded, strict=True)]
        needs = [of_input, of_input, *[of_weights] * len(found.traced.names)]
        given = [change(tensor) for tensor in tensors]
        arguments = (gradients, given, [output, *kept], case["sizes"], found.key, False, True, needs)
        with use(executor):
            checked = opcheck(torch.ops.engram.loop_backward.default, arguments)
        assert checked == dict.fromkeys(CHECKS, "SUCCESS")


# Activation, reverse, packed: every value of each, and the two directions with both.
GRADIENTS = [("tanh", False, False), ("sigmoid", True, False), ("identity", False, True), ("tanh", True, True)]


@pytest.mark.parametrize(("activation", "reverse", "packed"), slow_but(GRADIENTS, [GRADIENTS[0], GRADIENTS[-1]]))
def test_gradcheck(executor: str, activation: str, reverse: bool, packed: bool, problem: Callable[..., Any]) -> None:
    """First derivatives against finite differences: a truth that does not pass through our own formulas."""
    case = problem(3, 2, 2, 3, activation=activation, reverse=reverse, packed=packed)
    leaves = {name: case[name].requires_grad_() for name in LEAVES if case[name] is not None}

    def call(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return additive(**{**case, **dict(zip(leaves, tensors, strict=True))})

    with use(executor):
        assert torch.autograd.gradcheck(call, tuple(leaves.values()))


@pytest.mark.parametrize(("activation", "packed"), [slow("tanh", False), ("sigmoid", True)])
def test_second_derivatives(executor: str, activation: str, packed: bool, problem: Callable[..., Any]) -> None:
    """Double backward is right (it goes through the plain loop), with respect to every tensor at once."""
    case = problem(3, 2, 2, 3, activation=activation, packed=packed)
    leaves = {name: case[name].requires_grad_() for name in LEAVES if case[name] is not None}

    def call(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return additive(**{**case, **dict(zip(leaves, tensors, strict=True))})

    with use(executor):
        assert torch.autograd.gradgradcheck(call, tuple(leaves.values()))


def test_create_graph_gives_the_same_first_derivative(executor: str, problem: Callable[..., Any]) -> None:
    """The two backward passes, hand-derived and through the plain loop, agree to rounding (float64)."""
    case = problem(6, 14, 3, 19, activation="modrelu", packed=True)
    weight = case["weight_hh"].requires_grad_()
    with use(executor):
        loss = sum(out.square().sum() for out in additive(**case))
        assert isinstance(loss, Tensor)
        (fast,) = torch.autograd.grad(loss, weight, retain_graph=True)
        (slow,) = torch.autograd.grad(loss, weight, create_graph=True)
    assert not fast.requires_grad
    assert slow.requires_grad
    torch.testing.assert_close(fast, slow.detach(), rtol=0, atol=1e-10)
