"""Gradients against finite differences, the gradients of gradients, and weights that want none."""

import copy
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

from engram.nn import RNN
from every_layer import EVERY, GROWING, KINDS, sequence
from tiers import slow, slow_but

ACTIVATIONS = ("identity", "tanh", "relu", "sigmoid", "modrelu")
PLACES = ("recurrence", "depth")
REAL = [(*case, torch.float64) for case in product(ACTIVATIONS, PLACES, ("free", "exponential", "cayley"))]
COMPLEX = [(a, p, "free", torch.complex128) for a, p in product(ACTIVATIONS, PLACES) if a != "relu"]
QUICK = [  # every activation, place, map and dtype
    *((activation, "recurrence", "free", torch.float64) for activation in ACTIVATIONS),
    ("tanh", "depth", "exponential", torch.float64),
    ("modrelu", "recurrence", "cayley", torch.float64),
    ("modrelu", "recurrence", "free", torch.complex128),
]


def make(activation: str, place: str, map: str, dtype: torch.dtype, hidden: int = 3) -> RNN:
    options = {"activation": activation, "activation_in": place, "map": map, "dtype": dtype}
    layer = RNN(2, hidden, bidirectional=True, initial_state="trained", **options)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith(("start", "mod_bias", "original")):  # all start near zero: no test of anything
                parameter.uniform_(-0.4, 0.4) if not parameter.is_complex() else parameter.copy_(
                    torch.randn_like(parameter) * 0.4
                )
    return layer


def as_function(layer: RNN) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """The layer as a function of its weights, and the weights."""
    names = [name for name, _ in layer.named_parameters()]
    values = tuple(p.detach().clone().requires_grad_() for p in layer.parameters())

    def call(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return functional_call(layer, dict(zip(names, weights, strict=True)), (x,))

    return call, values


@pytest.mark.parametrize(("activation", "place", "map", "dtype"), slow_but(REAL + COMPLEX, QUICK))
def test_finite_differences(activation: str, place: str, map: str, dtype: torch.dtype) -> None:
    call, weights = as_function(make(activation, place, map, dtype))
    assert len(weights) == (10 if activation == "modrelu" else 8)
    x = torch.randn(4, 2, 2, dtype=dtype, requires_grad=True)
    # tolerances of gradcheck: central differences of 1e-6 in float64 leave 1e-9 or so
    assert gradcheck(call, (x, *weights), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("activation", "place", "map", "dtype"),
    [
        ("tanh", "recurrence", "cayley", torch.float64),
        ("sigmoid", "depth", "exponential", torch.float64),
        ("modrelu", "recurrence", "free", torch.float64),
        ("tanh", "recurrence", "free", torch.complex128),
        slow("modrelu", "recurrence", "free", torch.complex128),
    ],
)
def test_double_backward(activation: str, place: str, map: str, dtype: torch.dtype) -> None:
    call, weights = as_function(make(activation, place, map, dtype, hidden=2))
    x = torch.randn(3, 1, 2, dtype=dtype, requires_grad=True)
    assert gradgradcheck(call, (x, *weights), atol=1e-6, rtol=1e-4)


def test_gradient_penalty_in_autocast() -> None:
    """A second gradient inside autocast is the one outside: the recurrence is not rounded to bfloat16."""
    layer = RNN(2, 4)
    found = []
    for autocast in (True, False):
        x = torch.linspace(-1, 1, 12).view(6, 1, 2).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            (grad,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), layer.weight_hh_l0)[0])
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)  # float32; bfloat16 would give 1e-2


FROZEN = ["weight_ih", "parametrizations.weight_hh.original", "bias", "mod_bias", "start"]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("cell", slow_but(range(4), {0, 3}))
def test_a_frozen_weight_changes_nothing_for_the_others(cell: int, name: str) -> None:
    options = {"map": "cayley", "activation": "modrelu", "initial_state": "trained", "bidirectional": True}
    layer = RNN(3, 4, 2, dtype=torch.float64, **options)
    frozen = copy.deepcopy(layer)
    mapped = name.startswith("parametrizations")
    frozen_name = f"cells.{cell}.{name}" if mapped else f"{name}_l{cell // 2}" + ("_reverse" if cell % 2 else "")
    frozen.get_parameter(frozen_name).requires_grad_(False)
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    for each in (layer, frozen):
        output, state = each(x)
        (output.square().sum() + state.sin().sum()).backward()
    for key, right in layer.named_parameters():
        found = frozen.get_parameter(key).grad
        if key == frozen_name:
            assert found is None
        else:
            torch.testing.assert_close(found, right.grad, atol=1e-12, rtol=0)  # the same sums


def test_only_the_input_wants_a_gradient() -> None:
    layer = RNN(3, 4, 2, dtype=torch.float64)
    x = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    (right,) = torch.autograd.grad(layer(x)[0].square().sum(), x)
    (found,) = torch.autograd.grad(layer.requires_grad_(False)(x)[0].square().sum(), x)
    assert torch.equal(found, right)
    assert not layer(x.detach())[0].requires_grad


def test_a_gradient_of_the_final_state_alone() -> None:
    """The two results can be used apart, and a call that is not used gives no gradient."""
    layer = RNN(3, 4, dtype=torch.float64)
    x = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    output, state = layer(x)
    (of_state,) = torch.autograd.grad(state.square().sum(), x, retain_graph=True)
    (of_output,) = torch.autograd.grad(output[-1].square().sum(), x)
    # the last output is the state; 6 steps of sums of 4, there and back: 50 eps = 1e-14 of numbers below 10
    torch.testing.assert_close(of_state, of_output, atol=1e-12, rtol=0)
    assert float(of_state[0].abs().max()) > 0


@pytest.mark.parametrize(
    "name", slow_but(EVERY | GROWING, {"memrnn"} | KINDS | {"gru", "lstm, projected, both ways", "s4d", "complex"})
)
def test_each_gradient_has_its_own_memory(name: str) -> None:
    """torch adds the next gradient in place: b_ih and b_hh of an LSTM, which have the same one, were added to twice."""
    layer = (EVERY | GROWING)[name](dtype=torch.float64)
    x = sequence(layer, 5, 2)
    for _ in range(2):
        layer(x)[0].abs().sum().backward()
    twice = [None if weight.grad is None else weight.grad.clone() for weight in layer.parameters()]
    layer.zero_grad()
    layer(x)[0].abs().sum().backward()
    once = [weight.grad for weight in layer.parameters()]
    assert any(grad is not None for grad in once)
    for both, grad in zip(twice, once, strict=True):
        torch.testing.assert_close(both, None if grad is None else 2 * grad, rtol=1e-12, atol=1e-12)
