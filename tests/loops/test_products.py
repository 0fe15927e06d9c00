"""The multiplicative, the bilinear and the factored recurrence: every fast loop equals the plain one."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from engram.errors import OptionError, ShapeError
from engram.loops import (
    PLAIN,
    _chunks,
    bilinear,
    bilinear_reference,
    factored,
    factored_reference,
    multiplicative,
    multiplicative_reference,
    use,
)

STEPS, BATCH, FEATURES, HIDDEN, RANK = 6, 14, 3, 19, 5  # H is no multiple of any vector, B makes two blocks of rows
KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "multiplicative": (multiplicative, multiplicative_reference),
    "bilinear": (bilinear, bilinear_reference),
    "factored": (factored, factored_reference),
}
CASES = [
    ("multiplicative", {"product": False}),
    ("multiplicative", {"product": True}),
    ("bilinear", {}),
    ("factored", {}),
]
IDS = ["multiplicative", "multiplicative-product", "bilinear", "factored"]


def problem(
    name: str, *, activation: str = "tanh", packed: bool = False, reverse: bool = False, drive: bool = True,
    hidden: int = HIDDEN, dtype: torch.dtype = torch.float64, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Random arguments of a kernel, in its order."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    sizes = torch.tensor([BATCH, BATCH, 9, 9, 2, 1]) if packed else None
    leading = (int(sizes.sum()),) if sizes is not None else (STEPS, BATCH)
    end = {
        "start": random(BATCH, hidden),
        "sizes": sizes,
        "activation": activation,
        "reverse": reverse,
        **options,
    }
    input = {"input": random(*leading, FEATURES)}
    added = (
        {"weight_ih": random(hidden, FEATURES), "bias": random(hidden)} if drive else {"weight_ih": None, "bias": None}
    )
    if name == "multiplicative":
        gate = {"weight_gate": random(hidden, FEATURES) / 2, "bias_gate": random(hidden) if drive else None}
        return {**input, **gate, **added, "weight_hh": random(hidden, hidden) / 4, **end}
    if name == "bilinear":
        return {**input, **added, "tensor": random(hidden, FEATURES, hidden) / 6, **end}
    factors = {"factor_h": random(hidden, RANK) / 2, "factor_out": random(hidden, RANK) / 2}
    weight = random(hidden, hidden) / 4 if drive else None
    return {**input, "factor_x": random(FEATURES, RANK), **added, "weight_hh": weight, **factors, **end}


def outcome(run: Callable[..., Any], given: dict[str, Any], graded: tuple[int, ...] = (0, 1)) -> dict[str, Tensor]:
    """Both outputs, and the gradient of every tensor from a random loss on the outputs in ``graded``."""
    leaves = {k: v.clone().requires_grad_() for k, v in given.items() if isinstance(v, Tensor) and k != "sizes"}
    outputs = run(**{**given, **leaves})
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), dtype=torch.float64)
    for place, output in enumerate(outputs):
        weight = torch.randn(output.shape, generator=generator, dtype=output.dtype)
        loss = loss + (output * weight).sum().real * (place in graded)
    found = torch.autograd.grad(loss, list(leaves.values()))
    return {"states": outputs[0].detach(), "final": outputs[1].detach(), **dict(zip(leaves, found, strict=True))}


def assert_same(found: dict[str, Tensor], truth: dict[str, Tensor]) -> None:
    assert found.keys() == truth.keys()
    for name, right in truth.items():
        error = float((found[name] - right).abs().max()) / max(1.0, float(right.abs().max()))
        assert found[name].shape == right.shape
        assert error <= 1e-10, f"{name} is off by {error:.1e}"


@pytest.mark.parametrize("drive", [True, False], ids=["drive", "alone"])
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("activation", PLAIN)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_equals_the_reference(
    kernel: str, name: str, options: dict[str, Any], activation: str, reverse: bool, packed: bool, drive: bool
) -> None:
    given = problem(name, activation=activation, reverse=reverse, packed=packed, drive=drive, **options)
    run, reference = KERNELS[name]
    for graded in [(0,), (1,), (0, 1)]:
        with use(kernel):
            found = outcome(run, given, graded)
        assert_same(found, outcome(reference, given, graded))


@pytest.mark.parametrize("chunk_bytes", [1, 1500, 5000])
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_any_chunk_gives_the_same_gradients(
    kernel: str, name: str, options: dict[str, Any], reverse: bool, packed: bool, chunk_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = problem(name, reverse=reverse, packed=packed, **options)
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", chunk_bytes)
    with use(kernel):
        found = outcome(KERNELS[name][0], given)
    assert_same(found, outcome(KERNELS[name][1], given))


@pytest.mark.parametrize(("packed", "reverse"), [*product([False, True], repeat=2)])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_complex_numbers(name: str, options: dict[str, Any], packed: bool, reverse: bool) -> None:
    given = problem(
        name, activation="identity", packed=packed, reverse=reverse, dtype=torch.complex128, hidden=4, **options
    )
    assert_same(outcome(KERNELS[name][0], given), outcome(KERNELS[name][1], given))


@pytest.mark.parametrize(("activation", "packed"), [*product(["tanh", "relu"], [False, True])])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_operators(name: str, options: dict[str, Any], activation: str, packed: bool) -> None:
    """Schema, fake tensors, autograd registration and tracing, as torch checks them; strided arguments too."""
    given = problem(name, activation=activation, packed=packed, hidden=4, **options)
    for change in (torch.clone, lambda t: t.mT.contiguous().mT if t.dim() > 1 else t):
        arguments = {
            k: change(v).requires_grad_() if isinstance(v, Tensor) and k != "sizes" else v for k, v in given.items()
        }
        found = opcheck(getattr(torch.ops.engram, name).default, tuple(arguments.values()))
        assert set(found.values()) == {"SUCCESS"}
        assert len(found) == 4


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_second_derivatives(name: str, options: dict[str, Any]) -> None:
    given = problem(name, hidden=3, **options)
    small = {k: v[:2, :2] if k == "input" else v[:2] if k == "start" else v for k, v in given.items()}
    places = [k for k, v in small.items() if isinstance(v, Tensor)]

    def run(*tensors: Tensor) -> Any:
        return KERNELS[name][0](**{**small, **dict(zip(places, tensors, strict=True))})

    leaves = [small[k].clone().requires_grad_() for k in places]
    assert torch.autograd.gradgradcheck(run, leaves)


def test_a_given_product_takes_the_place_of_the_first_one() -> None:
    """h_1 = g_1 p: the weight has no part in the first step."""
    given = problem("multiplicative", activation="identity", drive=False, product=True)
    states, _ = multiplicative(**given)
    gate = given["input"] @ given["weight_gate"].mT
    torch.testing.assert_close(states[0], gate[0] * given["start"], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(states[1], gate[1] * (states[0] @ given["weight_hh"].mT), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_wrong_calls(name: str) -> None:
    with pytest.raises(OptionError, match="activation"):
        KERNELS[name][0](**{**problem(name), "activation": "gelu"})
    with pytest.raises(OptionError, match="activation"):
        KERNELS[name][0](**{**problem(name), "activation": "modrelu"})  # it has a bias of its own
    packed = problem(name, packed=True)
    with pytest.raises(ShapeError, match="never growing"):
        KERNELS[name][0](**{**packed, "sizes": packed["sizes"].flip(0)})
