"""The last state alone: the same number and gradients as with all states, and nothing of their size is kept."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from recurrences import additive_cell, additive_last
from torch import Tensor
from torch.library import opcheck

import engram.loops._operator  # noqa: F401  (registers the operators)
from engram.loops import ACTIVATIONS, _memory, compiled_cell, free_workspaces, use
from tiers import slow_but

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")
TOLERANCE = 1e-10  # float64, as for `additive`


def last(case: dict[str, Any], executor: str) -> dict[str, Tensor]:
    """The last state, and the gradients of the same loss as in ``outcome(..., graded=["final"])``."""
    leaves = {name: case[name].detach().clone().requires_grad_() for name in LEAVES if case[name] is not None}
    generator = torch.Generator().manual_seed(1)
    exact = torch.complex128 if case["start"].is_complex() else torch.float64
    states = (*case["input"].shape[:-1], case["start"].shape[-1])
    torch.randn(states, generator=generator, dtype=exact)  # `outcome` draws weights for the states first
    weight = torch.randn(case["start"].shape, generator=generator, dtype=exact)
    with use(executor):
        final = additive_last(**{**case, **leaves})
        found = torch.autograd.grad((final * weight).sum().real, list(leaves.values()))
    return {"final": final.detach(), **{f"grad {name}": g for name, g in zip(leaves, found, strict=True)}}


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_equals_the_reference(
    executor: str,
    activation: str,
    reverse: bool,
    packed: bool,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
) -> None:
    case = problem(6, 14, 3, 19, activation=activation, reverse=reverse, packed=packed)
    truth = outcome(case, "plain", graded=["final"])
    del truth["states"]
    for name in (executor, "plain"):
        assert_same(last(case, name), truth, TOLERANCE)


def test_complex(problem: Callable[..., Any], outcome: Callable[..., Any], assert_same: Callable[..., None]) -> None:
    case = problem(activation="modrelu", dtype=torch.complex128)
    truth = outcome(case, "plain", graded=["final"])
    del truth["states"]
    assert_same(last(case, "torch"), truth, TOLERANCE)


def test_only_the_arguments_are_saved(executor: str, problem: Callable[..., Any]) -> None:
    """Of 1000 steps nothing is kept for the backward pass but what the caller holds anyway."""
    case = problem(1000, 3, 2, 16)
    case["weight_hh"].requires_grad_()
    held = {case[name].data_ptr() for name in LEAVES if case[name] is not None}
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with use(executor):
        additive_last(**case)  # the first call also traces the step
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            additive_last(**case)
    assert saved
    assert {tensor.data_ptr() for tensor in saved} <= held


def test_the_result_does_not_live_in_lent_memory(executor: str, problem: Callable[..., Any]) -> None:
    """A second call, and the memory given back, leave the first result as it was."""
    free_workspaces()
    first, second = (last(problem(60, 32, 2, 33, seed=seed), executor) for seed in (0, 1))
    kept = {name: value.clone() for name, value in first.items()}
    _memory._collect()
    for block in _memory._idle:
        block.fill(255)  # NaN
    assert free_workspaces() > 0
    assert all(first[name].equal(value) for name, value in kept.items())
    assert all(value.isfinite().all() for value in second.values())


@pytest.mark.parametrize("packed", slow_but([False, True], [True]))
def test_operators(executor: str, packed: bool, problem: Callable[..., Any]) -> None:
    """As torch sees them, with transposed arguments; nothing is kept, so the gradient runs the steps again."""
    case = problem(activation="modrelu", packed=packed)
    cell = additive_cell(*(case[name] for name in ("weight_ih", "bias", "weight_hh", "mod_bias", "activation")))
    found = compiled_cell(cell)
    tensors = [case["input"], case["start"], *(case[name] for name in found.traced.names)]
    tensors = [tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for tensor in tensors]
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    gradient, needs = [torch.randn(4, 3, dtype=torch.float64).t()], [True] * len(tensors)
    with use(executor):
        forward = opcheck(torch.ops.engram.loop.default, (leaves, case["sizes"], found.key, False, False, False))
        arguments = (gradient, tensors, [], case["sizes"], found.key, False, False, needs)
        backward = opcheck(torch.ops.engram.loop_backward.default, arguments)
    assert set(forward.values()) == set(backward.values()) == {"SUCCESS"}


def test_second_derivatives(executor: str, problem: Callable[..., Any]) -> None:
    case = problem(3, 2, 2, 3)
    leaves = {name: case[name].requires_grad_() for name in LEAVES if case[name] is not None}

    def call(*tensors: Tensor) -> Tensor:
        return additive_last(**{**case, **dict(zip(leaves, tensors, strict=True))})

    with use(executor):
        assert torch.autograd.gradgradcheck(call, tuple(leaves.values()))
