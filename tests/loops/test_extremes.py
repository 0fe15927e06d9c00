"""Inputs at the end of the scale: huge, infinite, NaN, zero and denormal drives do what torch does."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from recurrences import additive, in_c
from torch import Tensor

from engram.loops import ACTIVATIONS, activate, use
from engram.nn import Cell

DTYPES = [torch.float32, torch.float64]
HUGE = [1e3, -1e3, 1e30, -1e30, math.inf, -math.inf]
SMALL = [0.0, 1e-30, -1e-30, 1e-40, -1e-40, 1e-45, 5e-324]  # the last ones are denormal, or 0 in float32
HIDDEN = 37  # several vectors and a tail, of whatever width


def through(executor: str, activation: str, drive: Tensor, mod: float = 0.0) -> Tensor:
    """act(drive) as an executor computes it: one step of 37 units for each value, without a recurrent matrix."""
    dtype, count = drive.dtype, len(drive)
    mod_bias = torch.full((HIDDEN,), mod, dtype=dtype) if activation == "modrelu" else None
    weight, start = torch.zeros(HIDDEN, HIDDEN, dtype=dtype), torch.zeros(count, HIDDEN, dtype=dtype)
    with use(executor):
        states, final = additive(
            drive.reshape(1, count, 1),
            torch.ones(HIDDEN, 1, dtype=dtype),
            None,
            weight,
            start,
            mod_bias,
            None,
            activation,
        )
    assert states.equal(final[None]) or states.isnan().any()
    assert (states == states[..., :1]).logical_or(states.isnan()).all(), "units differ: body and tail disagree"
    return states[0, :, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_huge_drives_saturate_as_in_torch(executor: str, activation: str, dtype: torch.dtype) -> None:
    """Exactly: 1, -1 and 0 are reached, and infinity passes where the activation lets it."""
    drive = torch.tensor(HUGE, dtype=dtype)
    found = through(executor, activation, drive)
    assert found.equal(activate(activation, drive, torch.zeros((), dtype=dtype)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_small_drives_are_not_lost(executor: str, activation: str, dtype: torch.dtype) -> None:
    drive = torch.tensor(SMALL, dtype=dtype)
    found = through(executor, activation, drive)
    right = activate(activation, drive, torch.zeros((), dtype=dtype))
    # tanh(x) = x below 1e-8: to two roundings, of which a denormal number has none to give
    torch.testing.assert_close(found, right, rtol=2 * torch.finfo(dtype).eps, atol=0)
    assert (found != 0).equal(right != 0), "flushed to zero"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_passes(executor: str, activation: str, dtype: torch.dtype) -> None:
    """A NaN stays in its own row, from its own step on."""
    drive = torch.tensor([1.0, math.nan, -1.0], dtype=dtype)
    assert through(executor, activation, drive).isnan().tolist() == [False, True, False]
    mod_bias = torch.zeros(HIDDEN, dtype=dtype) if activation == "modrelu" else None
    input, weight = torch.ones(4, 15, 1, dtype=dtype), torch.eye(HIDDEN, dtype=dtype)
    input[2, 7] = math.nan
    with use(executor):
        states, final = additive(
            input, torch.ones(HIDDEN, 1, dtype=dtype), None, weight, torch.zeros(15, HIDDEN, dtype=dtype), mod_bias,
            None, activation,
        )  # fmt: skip
    where = torch.zeros(4, 15, HIDDEN, dtype=torch.bool)
    where[2:, 7] = True
    assert states.isnan().equal(where)
    assert final.isnan().equal(where[-1])


@pytest.mark.parametrize("mod", [-0.5, 0.0, 0.5])
def test_modrelu_at_zero(executor: str, mod: float) -> None:
    """modReLU(0) = 0 whatever the bias, and such a unit passes no gradient; 0 times infinity is as in torch."""
    assert through(executor, "modrelu", torch.zeros(3, dtype=torch.float64), mod).equal(torch.zeros(3).double())
    input = torch.zeros(1, 2, 1, dtype=torch.float64, requires_grad=True)
    mod_bias = torch.full((HIDDEN,), mod, dtype=torch.float64, requires_grad=True)
    weight = torch.ones(HIDDEN, 1, dtype=torch.float64)
    found = {}
    for name, size in product((executor, "plain"), (1.0, math.inf)):
        with use(name):
            states, _ = additive(
                input,
                weight,
                None,
                torch.eye(HIDDEN).double(),
                torch.zeros(2, HIDDEN).double(),
                mod_bias,
                None,
                "modrelu",
            )
            found[name, size] = torch.autograd.grad(states, [input, mod_bias], torch.full_like(states, size))
    assert not any(gradient.any() for gradient in found[executor, 1.0])
    for made, right in zip(found[executor, math.inf], found["plain", math.inf], strict=True):
        torch.testing.assert_close(made, right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_gradient_of_a_saturated_unit_is_zero(
    executor: str, activation: str, problem: Callable[..., Any], outcome: Callable[..., Any]
) -> None:
    """A drive of -1000 everywhere: nothing flows, and nothing is NaN."""
    case = problem(activation=activation)
    case["bias"] = torch.full_like(case["bias"], -1e3)
    found = outcome(case, executor)
    gradients = {name: g for name, g in found.items() if name.startswith("grad")}
    assert len(gradients) == 5
    assert not any(g.any() for g in gradients.values())


def test_gradient_at_a_nan_is_that_of_torch(executor: str) -> None:
    """relu: torch lets the gradient of a NaN through, so it is not hidden in a zero."""
    start, weight = torch.zeros(2, HIDDEN), torch.zeros(HIDDEN, HIDDEN)
    bias = torch.zeros(HIDDEN, requires_grad=True)
    with use(executor):
        states, _ = additive(
            torch.full((1, 2, 1), math.nan), torch.ones(HIDDEN, 1), bias, weight, start, None, None, "relu"
        )
        states.sum().backward()
    assert bias.grad is not None
    assert bias.grad.equal(torch.full((HIDDEN,), 2.0))


class GrowingCell(Cell):
    """An exponential without an end."""

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.exp(drive)


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float32, 88.0), (torch.float64, 709.0)], ids=str)
def test_exp_up_to_where_it_overflows(executor: str, dtype: torch.dtype, largest: float) -> None:
    """Of both signs: a number as long as there is one, then infinity or 0."""
    cell = GrowingCell(1, HIDDEN, bias=False, dtype=dtype)
    cell.weight_ih.data.fill_(1.0)
    drive = torch.tensor([0.5, 0.9, 0.97, 1.0, 1.3, 2.0], dtype=dtype) * largest
    drive = torch.cat([drive, -drive[:3], -drive[4:] * 2])
    with use(executor), torch.no_grad():
        _, final = in_c(cell).run(drive.view(1, -1, 1), cell.initial_state(len(drive)), None, False)
    right = torch.exp(drive)[:, None].expand_as(final)
    # half of x is what the exponential is taken of, and it is squared: twice the few roundings of exp
    torch.testing.assert_close(final, right, rtol=8 * torch.finfo(dtype).eps, atol=0)
