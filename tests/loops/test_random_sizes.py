"""Property: on random sizes, thread counts and dtypes every fast loop equals the plain one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engram.loops import ACTIVATIONS
from engram.loops._run import CHUNK_BYTES

SIZES = {
    "steps": st.integers(1, 12),
    "batch": st.integers(1, 30),  # several blocks of rows, and fewer rows than threads
    "features": st.integers(1, 4),
    "hidden": st.integers(1, 70),  # tails of a vector, and several panels of columns
    "seed": st.integers(0, 2**16),
    "reverse": st.booleans(),
    "packed": st.booleans(),
    "bias": st.booleans(),
}
EPS = torch.finfo(torch.float32).eps
SMOOTH = ("identity", "tanh", "sigmoid")
CANCELLING = {"steps": 11, "batch": 16, "features": 4, "hidden": 1, "seed": 2650}
CANCELLING |= {"reverse": True, "packed": False, "bias": True}
"""Float32 alone, without any loop of ours, is off by 1.7e-4 here."""


def float64(
    executor: str,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    threads: Callable[[int], Any],
    sizes: dict[str, Any],
    activation: str,
    count: int,
) -> None:
    case = problem(**sizes, activation=activation)
    truth = outcome(case, "plain")
    with threads(count):
        # 1e-10 of the largest entry: sums of at most 12 * 30 * 70 products, each rounded at 1e-16
        assert_same(outcome(case, executor), truth, 1e-10)


of_float64 = given(
    sizes=st.fixed_dictionaries(SIZES), activation=st.sampled_from(ACTIVATIONS), count=st.sampled_from([1, 2, 3])
)
test_float64 = settings(max_examples=20)(of_float64(float64))
test_float64_many = pytest.mark.slow(settings(max_examples=200)(of_float64(float64)))


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_larger_than_the_caches(
    executor: str,
    packed: bool,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    threads: Callable[[int], Any],
) -> None:
    """H = 301: a matrix of 0.7 MB, many panels, and a backward pass of several chunks without a change of limits."""
    case = problem(60, 40, 3, 301, packed=packed)
    assert case["input"].shape[:-1].numel() * 301 * 8 > CHUNK_BYTES or packed
    with threads(2):
        assert_same(outcome(case, executor), outcome(case, "plain"), 1e-10)  # as above


def float32(
    executor: str,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    threads: Callable[[int], Any],
    nudged: Callable[..., dict[str, float]],
    sizes: dict[str, Any],
    activation: str,
    count: int,
) -> None:
    """Against float64: 2e-5 of the largest entry is 170 roundings of 1.2e-7, for up to 12 steps of sums of 70.

    Where terms cancel (H = 1, identity, W > 1) or errors grow, as many roundings of the given numbers are allowed too.
    Only smooth activations: at a kink, float32 and float64 may rightly fall on different sides.
    """
    case = problem(**sizes, activation=activation, dtype=torch.float32)
    exact = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in case.items()}
    with threads(count):
        truth = outcome(exact, "plain")
        assert_same(outcome(case, executor), truth, 2e-5, nudged(exact, truth, 170 * EPS))


of_float32 = given(
    sizes=st.fixed_dictionaries(SIZES), activation=st.sampled_from(SMOOTH), count=st.sampled_from([1, 2, 3])
)
cancelling = example(sizes=CANCELLING, activation="identity", count=1)
test_float32 = settings(max_examples=10)(of_float32(cancelling(float32)))
test_float32_many = pytest.mark.slow(settings(max_examples=100)(of_float32(float32)))


@pytest.mark.parametrize("activation", ["relu", "modrelu"])
@pytest.mark.parametrize("hidden", [1, 8, 35])
def test_float32_beside_the_kink(
    executor: str,
    activation: str,
    hidden: int,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
) -> None:
    """One step, all |z| and |z| + b farther from 0 than any rounding: float32 must take the same side."""
    case = problem(1, 13, 2, hidden, activation=activation, dtype=torch.float32, mod_range=(-0.5, 0.0))
    exact = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in case.items()}
    z = exact["input"] @ exact["weight_ih"].T + exact["bias"] + exact["start"] @ exact["weight_hh"].T
    edge = z.abs() + (exact["mod_bias"] if activation == "modrelu" else 0)
    assert edge.abs().min() > 1e-5, "take another seed"
    assert_same(outcome(case, executor), outcome(exact, "plain"), 2e-5)  # as above
