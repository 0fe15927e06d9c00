"""The doctor says in words where the gradient is, how far a matrix is from its promise, and what stood still."""

import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from engram.checks import Diagnosis, check_contract, doctor, explain
from engram.errors import DTypeError
from engram.nn import RNN

ORIGINAL = "cells.0.parametrizations.weight_hh.original"


def said(report: Diagnosis, pattern: str) -> bool:
    return any(re.search(pattern, line) for line in report.notes + report.problems)


@pytest.fixture
def layer() -> RNN:
    return RNN(3, 4, map="cayley")


def backward(layer: nn.Module) -> None:
    output, state = layer(torch.randn(5, 2, 3))
    (output.square().sum() + state.sum()).backward()


def test_a_new_layer(layer: RNN) -> None:
    report = doctor(layer)
    assert report.healthy
    assert said(report, rf"^cells\.0\.weight_hh is computed from {ORIGINAL}: the gradient and the optimiser see that")
    assert said(report, r"cells\.0\.weight_hh should be orthogonal .*; it is \d\.\de-0\d away")
    for name, _ in layer.named_parameters():
        assert said(report, rf"^{name} has no gradient yet")
    assert said(report, "weights noted down: take an optimiser step")
    assert str(report).startswith(
        "Diagnosis: no problem in what was seen; not seen: gradients (run a backward pass); "
        "movement (take an optimiser step and ask again)\n- "
    )
    assert str(report).count("\n") == len(report.notes)


def test_a_gradient_step(layer: RNN) -> None:
    """Gradients have a norm; after a step every weight has moved, and it says so."""
    doctor(layer)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    backward(layer)
    norm = float(layer.get_parameter(ORIGINAL).grad.norm())
    optimiser.step()
    report = doctor(layer)
    assert report.healthy
    assert said(report, rf"^{ORIGINAL} has a gradient of norm {re.escape(f'{norm:.3g}')}$")
    assert said(report, "^3 of 3 weights moved since the last visit$")
    assert report.unseen == []
    assert str(report).startswith("Diagnosis: healthy\n- ")


def test_healthy_is_said_of_what_was_seen(layer: RNN) -> None:
    """A gradient that never came is not called healthy."""
    doctor(layer)
    backward(layer)
    layer.cells[0].bias.grad = None
    report = doctor(layer)
    assert report.unseen == ["gradients of 1 of 3 weights (run a backward pass)"]
    assert "healthy" not in str(report)


def test_a_weight_left_out_of_the_optimiser(layer: RNN) -> None:
    doctor(layer)
    backward(layer)
    torch.optim.SGD([layer.get_parameter(ORIGINAL)], lr=0.1).step()
    report = doctor(layer)
    assert not report.healthy
    assert said(report, "^1 of 3 weights moved")
    assert report.problems == [
        f"{name}_l0 has not moved: is it in the optimiser's list?" for name in ("weight_ih", "bias")
    ]
    assert "Diagnosis: 2 to look at" in str(report)
    assert str(report).count("\n! ") == 2


def test_a_frozen_weight_is_no_problem(layer: RNN) -> None:
    layer.get_parameter(ORIGINAL).requires_grad_(False)
    doctor(layer)
    backward(layer)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    report = doctor(layer)
    assert report.healthy
    assert said(report, rf"^{ORIGINAL} is frozen")
    assert said(report, "^2 of 2 weights moved")


def test_a_broken_promise(layer: RNN) -> None:
    """A base point that is no longer orthogonal (loaded from a bad file, say)."""
    layer.cells[0].parametrizations.weight_hh[0].base.mul_(2)
    report = doctor(layer)
    assert [p for p in report.problems if "weight_hh should be orthogonal" in p and "3.0e+00 away" in p]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(layer: RNN, value: float) -> None:
    backward(layer)
    layer.cells[0].bias.grad[1] = value
    with torch.no_grad():
        layer.cells[0].weight_ih[2, 0] = value
    report = doctor(layer)
    assert len(report.problems) == 2
    assert said(report, r"^bias_l0 has NaN or infinity in its gradient: clip it")
    assert said(report, r"^weight_ih_l0 holds NaN or infinity")


def test_a_gradient_of_zero() -> None:
    """Without a step in time, the recurrent matrix does nothing."""
    layer = RNN(3, 4)
    layer(torch.randn(1, 2, 3))[0].sum().backward()
    assert doctor(layer).problems == ["weight_hh_l0 has a gradient of exactly zero: does the loss depend on it?"]


def test_nothing_is_changed(layer: RNN) -> None:
    backward(layer)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    grads = [p.grad.clone() for p in layer.parameters()]
    doctor(layer)
    assert layer.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert all(torch.equal(p.grad, grad) for p, grad in zip(layer.parameters(), grads, strict=True))
    assert layer.training


def test_each_model_has_its_own_memory(layer: RNN) -> None:
    doctor(layer)
    assert said(doctor(RNN(3, 4)), "weights noted down")
    assert said(doctor(layer), "^0 of 3 weights moved")


def test_a_layer_inside_a_model() -> None:
    report = doctor(nn.ModuleDict({"memory": RNN(3, 4, 2, map="exponential"), "readout": nn.Linear(4, 2)}))
    assert said(report, rf"^memory\.cells\.1\.weight_hh is computed from memory\.{ORIGINAL.replace('0', '1')}:")
    assert said(report, r"^readout\.bias has no gradient yet")


def test_parametrizations_of_torch() -> None:
    """Any module: one parametrised itself, and one with two originals."""
    assert said(doctor(parametrizations.orthogonal(nn.Linear(3, 3))), r"^weight .* from parametrizations\.weight\.orig")
    assert said(doctor(parametrizations.weight_norm(nn.Linear(3, 3))), r"weight\.original0 and original1: ")


def test_sparse_lazy_and_complex_weights() -> None:
    embedding = nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    assert said(doctor(embedding), r"^weight has a gradient of norm 3\.16$")  # rows (2, 2) and (1, 1): sqrt 10
    assert said(doctor(nn.LazyLinear(3)), "^weight is not made yet")
    layer = RNN(3, 4, dtype=torch.complex64)
    layer(torch.randn(5, 2, 3))[0].abs().sum().backward()
    assert doctor(layer).healthy


def test_a_model_that_was_moved_between_visits(layer: RNN) -> None:
    """Another dtype is not a movement, but the weights can still be compared."""
    doctor(layer)
    assert said(doctor(layer.double()), "^0 of 3 weights moved")


@pytest.mark.parametrize(
    ("check", "given"),
    [(doctor, nn.LSTM), (doctor, None), (explain, nn.LSTM), (check_contract, nn.LSTM(3, 5)), (check_contract, None)],
)
def test_a_class_for_a_module_and_a_module_for_a_class(check: Any, given: Any) -> None:
    with pytest.raises(DTypeError, match=rf"{check.__name__} takes .*; got "):
        check(given)
