"""One additive problem, and what one executor makes of it: outputs and gradients, by name."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.loops import status, use

sys.path.insert(0, str(Path(__file__).parent))
from recurrences import additive

Problem = dict[str, Any]
Outcome = dict[str, Tensor]

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")


def _problem(
    steps: int = 5,
    batch: int = 3,
    features: int = 2,
    hidden: int = 4,
    *,
    activation: str = "tanh",
    reverse: bool = False,
    packed: bool = False,
    bias: bool = True,
    dtype: torch.dtype = torch.float64,
    mod_range: tuple[float, float] = (-0.5, 0.3),
    seed: int = 0,
) -> Problem:
    """The arguments of ``additive``, random and tame: the recurrent matrix is about as long as an orthogonal one."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    sizes = None
    if packed:  # at least one row ends early wherever there is room for it
        ends = torch.randint(1, batch + 1, (steps,), generator=generator).sort(descending=True).values
        sizes = torch.cat([torch.tensor([batch]), ends[1:]])
    low, high = mod_range
    mod_bias = torch.rand(hidden, generator=generator, dtype=random(0).real.dtype) * (high - low) + low
    return {
        "input": random(*((steps, batch) if sizes is None else (int(sizes.sum()),)), features),
        "weight_ih": random(hidden, features),
        "bias": random(hidden) if bias else None,
        "weight_hh": random(hidden, hidden) / hidden**0.5,
        "start": random(batch, hidden),
        "mod_bias": mod_bias if activation == "modrelu" else None,
        "sizes": sizes,
        "activation": activation,
        "reverse": reverse,
    }


def _outcome(
    problem: Problem,
    executor: str,
    *,
    graded: Sequence[str] = ("states", "final"),
    needs: Sequence[str] = LEAVES,
) -> Outcome:
    """Both outputs, and the gradient of each tensor in ``needs`` from a loss on the outputs in ``graded``."""
    given = dict(problem)
    leaves = {name: given[name].detach().clone() for name in needs if given[name] is not None}
    given.update({name: leaf.requires_grad_() for name, leaf in leaves.items()})
    generator = torch.Generator().manual_seed(1)
    with use(executor):
        outputs = dict(zip(("states", "final"), additive(**given), strict=True))
        loss = torch.zeros((), dtype=torch.float64)
        for name, output in outputs.items():  # a random weight for every entry of both, graded or not
            exact = torch.complex128 if output.is_complex() else torch.float64  # the same weights in float32
            weight = torch.randn(output.shape, generator=generator, dtype=exact)
            if name in graded:
                loss = loss + (output * weight.to(output.dtype)).sum().real
        found = torch.autograd.grad(loss, list(leaves.values()))
    gradients = {f"grad {name}": g for name, g in zip(leaves, found, strict=True)}
    return {**{name: output.detach() for name, output in outputs.items()}, **gradients}


def _nudged(problem: Problem, truth: Outcome, eps: float) -> dict[str, float]:
    """How far the truth moves if every given number changes by a factor of 1 + eps or 1 - eps: the largest of 3 draws.

    Sums that cancel, and a matrix that grows, move by more than eps.
    """
    generator, moved = torch.Generator().manual_seed(2), dict.fromkeys(truth, 0.0)
    for _ in range(3):
        given = dict(problem)
        for name in LEAVES:
            if given[name] is not None:
                signs = torch.randint(2, given[name].shape, generator=generator) * 2 - 1
                given[name] = given[name] * (1 + eps * signs)
        for name, value in _outcome(given, "plain").items():
            moved[name] = max(moved[name], float((value - truth[name]).abs().max()))
    return moved


def _assert_same(found: Outcome, truth: Outcome, tolerance: float, more: dict[str, float] | None = None) -> None:
    """Every entry within ``tolerance`` of the largest one of its array (or of 1), and ``more`` of that array."""
    assert found.keys() == truth.keys()
    assert len(found) > 2, "no gradient was asked for"
    for name, right in truth.items():
        assert found[name].shape == right.shape, name
        assert found[name].isfinite().all(), name
        bound = tolerance * max(1.0, float(right.abs().max())) + (more or {}).get(name, 0.0)
        error = float((found[name].to(right.dtype) - right).abs().max())
        assert error <= bound, f"{name} is off by {error:.1e}, allowed are {bound:.1e}"


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Fixtures of session scope, so that hypothesis may use them.


@pytest.fixture(scope="session")
def problem() -> Callable[..., Problem]:
    return _problem


@pytest.fixture(scope="session")
def outcome() -> Callable[..., Outcome]:
    return _outcome


@pytest.fixture(scope="session")
def nudged() -> Callable[[Problem, Outcome, float], dict[str, float]]:
    return _nudged


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    return _assert_same


@pytest.fixture(scope="session")
def threads() -> Callable[[int], Any]:
    return _threads


@pytest.fixture(scope="session")
def compiled() -> str:
    """The name of the compiled executor, or a skip where there is no compiler: never a silent fallback."""
    for dtype, words in status().items():
        if dtype != "executor" and not words.startswith("compiled"):
            pytest.skip(f"{dtype}: {words}")
    return "compiled"


@pytest.fixture(scope="session", params=["compiled", "torch"])
def executor(request: pytest.FixtureRequest) -> str:
    """Each fast executor."""
    return request.getfixturevalue("compiled") if request.param == "compiled" else request.param
