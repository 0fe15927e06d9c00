"""Layouts that autograd and users really produce: strided inputs, expanded gradients, backward more than once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from recurrences import additive
from torch import Tensor

from engram.loops import use
from engram.loops._products import Multiplier, matmul

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")


def transposed(tensor: Tensor) -> Tensor:
    """The same values, with the axes in memory the other way round."""
    return tensor.permute(*reversed(range(tensor.dim()))).contiguous().permute(*reversed(range(tensor.dim())))


def gapped(tensor: Tensor) -> Tensor:
    """The same values, every second number in memory."""
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1)[..., 0]


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("layout", [transposed, gapped])
def test_strided_inputs(
    executor: str, layout: Callable[[Tensor], Tensor], packed: bool, problem: Callable[..., Any]
) -> None:
    """Inputs and incoming gradients in any layout: the same numbers as contiguous ones."""
    case = problem(6, 3, 2, 19, packed=packed, activation="modrelu")
    strided = {**case, **{name: layout(case[name]) for name in LEAVES}}
    assert not any(strided[name].is_contiguous() for name in ("input", "weight_ih", "weight_hh", "start"))
    results = []
    for given, change in ((case, torch.clone), (strided, layout)):
        leaves = {name: given[name].detach().requires_grad_() for name in LEAVES}
        with use(executor):
            outputs = additive(**{**given, **leaves})
            weights = [change(torch.linspace(-1, 1, out.numel()).double().view(out.shape)) for out in outputs]
            results.append((*outputs, *torch.autograd.grad(outputs, list(leaves.values()), weights)))
    assert len(results[0]) == 8
    for found, right in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)  # products may be summed in another order


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_expanded_gradient(executor: str, packed: bool, reverse: bool, problem: Callable[..., Any]) -> None:
    """``output.sum().backward()`` sends one number expanded to all entries; ``mean(0)`` sends a row expanded."""
    case = problem(6, 3, 2, 19, packed=packed, reverse=reverse)
    for reduce in (torch.sum, lambda out: out.mean(0).square().sum()):
        found = []
        for name in (executor, "plain"):
            weight = case["weight_hh"].detach().clone().requires_grad_()
            with use(name):
                reduce(additive(**{**case, "weight_hh": weight})[0]).backward()
            found.append(weight.grad)
        torch.testing.assert_close(*found, rtol=0, atol=1e-10)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_the_given_gradient_stays(executor: str, reverse: bool, problem: Callable[..., Any]) -> None:
    """Of the last state too, with which the backward pass begins: the caller may use it again."""
    case = problem(6, 14, 2, 19, reverse=reverse)
    case["start"].requires_grad_()
    with use(executor):
        results = additive(**case)
    given = [torch.randn_like(result) for result in results]
    before = [gradient.clone() for gradient in given]
    torch.autograd.grad(results, case["start"], given)
    assert all(after.equal(old) for after, old in zip(given, before, strict=True))


def test_backward_twice(executor: str, problem: Callable[..., Any]) -> None:
    """With retain_graph the second pass adds the same gradient to the bit; without, torch refuses as always."""
    case = problem(6, 3, 2, 19)
    weight = case["weight_hh"].requires_grad_()
    with use(executor):
        loss = additive(**case)[0].square().sum()
        loss.backward(retain_graph=True)
        first = weight.grad.clone()
        loss.backward()
        assert weight.grad.equal(2 * first)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_changed_states_are_noticed(executor: str, problem: Callable[..., Any]) -> None:
    """The backward pass reads the states: torch must know when they were overwritten."""
    case = problem()
    case["weight_hh"].requires_grad_()
    with use(executor):
        states, _ = additive(**case)
        states.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            states.sum().backward()


def test_outputs_and_inputs_share_no_memory(executor: str, problem: Callable[..., Any]) -> None:
    """Writing to a result does not change an argument or the other result."""
    case = problem(1)
    kept = {name: value.clone() for name, value in case.items() if isinstance(value, Tensor)}
    with use(executor):
        states, final = additive(**case)
        states.zero_()
        assert final.any()
        final.zero_()
    assert len(kept) == 5
    assert all(case[name].equal(value) for name, value in kept.items())


@pytest.mark.parametrize("activation", ["tanh", "modrelu"])
def test_tensors_whose_numbers_come_later(executor: str, activation: str, problem: Callable[..., Any]) -> None:
    """A negated view, and zeros that have no memory at all: of the input, the start, a weight and what comes back."""
    case = problem(6, 3, 2, 19, activation=activation)
    complex_input = torch.complex(torch.zeros_like(case["input"]), -case["input"])
    negated = complex_input.conj().imag
    assert negated.is_neg()
    zero = torch._efficientzerotensor(case["input"].shape, dtype=torch.float64)
    assert zero._is_zerotensor()
    for given, plain in ((negated, case["input"]), (zero, torch.zeros_like(case["input"]))):
        with use(executor):
            right = additive(**{**case, "input": plain})[0]
            assert additive(**{**case, "input": given})[0].equal(right)
            with torch.no_grad():
                assert additive(**{**case, "input": given})[0].equal(right)


def test_lazy_weights_starts_and_gradients(executor: str, problem: Callable[..., Any]) -> None:
    case = problem(6, 3, 2, 19)

    def lazy(tensor: Tensor) -> Tensor:
        return torch.complex(torch.zeros_like(tensor), -tensor).conj().imag

    def nothing(tensor: Tensor) -> Tensor:
        return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype)

    for change, same in ((lazy, torch.clone), (nothing, torch.zeros_like)):
        results = []
        for turn in (change, same):
            given = {**case, **{name: turn(case[name]) for name in ("weight_hh", "weight_ih", "start")}}
            leaf = case["bias"].clone().requires_grad_()
            with use(executor):
                states, final = additive(**{**given, "bias": leaf})
                weights = [turn(torch.ones_like(states)), turn(torch.ones_like(final))]
                results.append([states, final, *torch.autograd.grad([states, final], [leaf], weights)])
        assert all(found.equal(right) for found, right in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_products_into_any_layout(dtype: torch.dtype) -> None:
    a, b = torch.randn(5, 7, dtype=dtype), torch.randn(7, 40, dtype=dtype)
    right = matmul(a, b)
    for change in (transposed, gapped):
        for out in (change(torch.zeros_like(right)), change(torch.zeros_like(right)).conj()):
            matmul(a, b, out)
            torch.testing.assert_close(out.resolve_conj(), right, rtol=0, atol=7 * 2e-16 * 50)
            Multiplier(b)(a, out, add=True)
            torch.testing.assert_close(out.resolve_conj(), 2 * right, rtol=0, atol=7 * 2e-16 * 100)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_products_of_operands_of_any_layout(dtype: torch.dtype) -> None:
    """Turned, with gaps, or conjugated when they are read: against sums of single products."""
    a, b, bias = (torch.randn(*shape, dtype=dtype) for shape in ((5, 7), (7, 40), (40,)))
    changes = [lambda t: t, transposed, gapped, *([torch.conj] if dtype.is_complex else [])]
    for left in changes:
        for right in changes:
            x, y = left(a), right(b)
            expected = (x[:, :, None] * y[None]).sum(1)
            for out, plus in ((None, None), (None, bias), (torch.ones(5, 40, dtype=dtype), None)):
                found = matmul(x, y, None if out is None else out.clone(), add=out is not None, bias=plus)
                total = expected + (0 if plus is None else plus) + (0 if out is None else out)
                torch.testing.assert_close(found, total, rtol=0, atol=7 * 2e-16 * 50)
            found = Multiplier(y)(x)
            torch.testing.assert_close(found, expected, rtol=0, atol=7 * 2e-16 * 50)
