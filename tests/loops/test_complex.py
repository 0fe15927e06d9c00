"""Complex recurrences: the loop of torch operations serves them, with torch's gradients (which point along conj)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrences import additive
from torch.utils.flop_counter import FlopCounterMode

from engram.errors import DTypeError
from engram.loops import ACTIVATIONS, _torch, check_activation_dtype, compiled_cell, use
from engram.nn import RNNCell

HOLOMORPHIC = ["identity", "tanh", "sigmoid"]
ALLOWED = [*HOLOMORPHIC, "modrelu"]


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("activation", ALLOWED)
def test_equals_the_reference(
    activation: str,
    bias: bool,
    reverse: bool,
    packed: bool,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
) -> None:
    """complex128: 1e-10, as for float64. A phase is steep near 0, and no |z| of this seed is below 1e-3."""
    case = problem(5, 3, 2, 6, activation=activation, reverse=reverse, packed=packed, bias=bias, dtype=torch.complex128)
    for executor in ("torch", "compiled", "auto"):
        assert_same(outcome(case, executor), outcome(case, "plain"), 1e-10)


@settings(max_examples=100)
@given(
    steps=st.integers(1, 8),
    batch=st.integers(1, 6),
    hidden=st.integers(1, 12),
    seed=st.integers(0, 2**16),
    packed=st.booleans(),
    reverse=st.booleans(),
)
def test_modrelu_of_any_size(
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    **sizes: Any,
) -> None:
    """1e-8: the modulus is rebuilt as |h| - b, which loses as many digits as |z| is smaller than b."""
    case = problem(features=2, activation="modrelu", dtype=torch.complex128, **sizes)
    assert_same(outcome(case, "torch"), outcome(case, "plain"), 1e-8)


def test_complex64_equals_complex128(
    problem: Callable[..., Any], outcome: Callable[..., Any], assert_same: Callable[..., None]
) -> None:
    case = problem(6, 3, 2, 9, activation="identity", dtype=torch.complex64)
    exact = {k: v.to(torch.complex128) if isinstance(v, torch.Tensor) else v for k, v in case.items()}
    found = outcome(case, "auto")
    assert found["states"].dtype == torch.complex64
    assert_same(found, outcome(exact, "plain"), 2e-5)  # as for float32: 170 roundings of 1.2e-7


@pytest.mark.parametrize("activation", ALLOWED)
def test_inside_a_dispatch_mode(activation: str, problem: Callable[..., Any], outcome: Callable[..., Any]) -> None:
    """torch's lazy conjugation does not work inside an operator that runs under a mode: none may be used there."""
    case = problem(activation=activation, packed=True, dtype=torch.complex128)
    plain = outcome(case, "torch")
    with FlopCounterMode(display=False):
        counted = outcome(case, "torch")
    assert len(plain) >= 7
    assert all(counted[name].equal(right) for name, right in plain.items())


def test_real_numbers_as_complex_ones(executor: str, problem: Callable[..., Any], outcome: Callable[..., Any]) -> None:
    """With no imaginary part anywhere, the complex modReLU is the real one, gradients included."""
    case = problem(6, 3, 2, 9, activation="modrelu", mod_range=(-0.5, 0.0))
    as_complex = {
        k: v.to(torch.complex128) if isinstance(v, torch.Tensor) and k != "mod_bias" else v for k, v in case.items()
    }
    real = outcome(case, executor, graded=["states"])
    turned = outcome(as_complex, "torch", graded=["states"])
    torch.testing.assert_close(turned["states"].real, real["states"], rtol=0, atol=1e-12)
    assert turned["states"].imag.abs().max() == 0


@pytest.mark.parametrize("z", [1e-20, 1e-300])
def test_modrelu_beside_its_singularity(z: float) -> None:
    """|z| is lost in |h| = |z| + b: to the bit what the plain loop gives, and along z it is 1, not NaN.

    At 1e-300 a rounding of the phase, over |z|, is all that there is.
    """
    input = torch.full((1, 1, 1), z, dtype=torch.complex128, requires_grad=True)
    bias = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    one, zero = torch.ones(1, 1).to(input), torch.zeros(1, 1).to(input)
    found = []
    for name in ("torch", "plain"):
        with use(name):
            states, _ = additive(input, one, None, zero, zero, bias, None, "modrelu")
            found.append([g.item() for g in torch.autograd.grad(states, [input, bias], one[None])])
    assert found[0] == found[1]
    assert z < 1e-20 or found[0] == [1, 1]


def test_relu_is_refused(problem: Callable[..., Any]) -> None:
    with use("torch"), pytest.raises(DTypeError, match=r"'relu' needs a real dtype.*Use 'modrelu'"):
        additive(**problem(activation="relu", dtype=torch.complex128))


def test_which_activations_complex_numbers_have() -> None:
    """All but ReLU, in either precision; ReLU for every real dtype."""
    for name in ACTIVATIONS:
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            check_activation_dtype(name, dtype)
        for dtype in (torch.complex64, torch.complex128):
            if name != "relu":
                check_activation_dtype(name, dtype)
                continue
            with pytest.raises(DTypeError, match=f"needs a real dtype, got {dtype}"):
                check_activation_dtype(name, dtype)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float16, torch.bfloat16], ids=str)
def test_only_real_single_and_double_are_compiled(compiled: str, dtype: torch.dtype) -> None:
    with use(compiled):
        other, real = (compiled_cell(RNNCell(2, 3, dtype=kind)) for kind in (dtype, torch.float32))
        assert other.traced is not None
        assert other.choose(torch.empty(1, dtype=dtype), 8).executor(torch.empty(1, dtype=dtype)) is _torch.run
        assert real.choose(torch.empty(1), 8).executor(torch.empty(1)) is real.choose(torch.empty(1), 8).loops
        assert real.choose(torch.empty(1, device="meta"), 8).executor(torch.empty(1, device="meta")) is _torch.run


@pytest.mark.parametrize("activation", ALLOWED)
def test_complex_cells_are_traced(activation: str) -> None:
    """Conjugates, and the masks in place of torch's own gradient of a phase, keep no cell in the plain loop."""
    assert compiled_cell(RNNCell(2, 3, activation=activation, dtype=torch.complex128)).reason == ""
