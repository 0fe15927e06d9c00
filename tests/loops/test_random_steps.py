"""Property: whatever a step is made of, every executor equals the plain loop, values and gradients."""

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_steps import RandomCell, random_cell
from recurrences import in_c
from torch import Tensor

from engram.loops import compiled_cell, use
from engram.state import each, parts

TOLERANCE = 1e-10  # float64, of the largest entry of an array or of 1: at most 6 steps of tame sums


def outcome(cell: RandomCell, name: str, steps: int, batch: int, packed: bool, reverse: bool) -> dict[str, Tensor]:
    """Outputs, last state, and the gradient of every number that went in."""
    generator = torch.Generator().manual_seed(1)

    def sampled(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    sizes = None
    if packed:
        ends = torch.randint(1, batch + 1, (steps,), generator=generator).sort(descending=True).values
        sizes = torch.cat([torch.tensor([batch]), ends[1:]])
    x = sampled(*((steps, batch) if sizes is None else (int(sizes.sum()),)), cell.input_size).requires_grad_()

    def before(field: Tensor) -> Tensor:
        value = torch.tanh(sampled(*field.shape))
        return value.requires_grad_() if field.is_floating_point() else (value > 0).to(field.dtype) * (cell.slots > 1)

    state = each(before, cell.initial_state(batch))
    with use(name):
        output, final = cell.run(x, state, sizes, reverse)
        leaves = {"input": x, **{f"field {k}": s for k, s in enumerate(parts(state)) if s.requires_grad}}
        leaves |= dict(cell.named_parameters())
        values = {"output": output, **{f"final {k}": f for k, f in enumerate(parts(final))}}
        shown = [(value * sampled(*value.shape)).sum() for value in values.values() if value.requires_grad]
        found = torch.autograd.grad(
            torch.stack(shown).sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    gradients = {f"grad {key}": g for key, g in zip(leaves, found, strict=True)}
    return {**{key: value.detach() for key, value in values.items()}, **gradients}


def check(cell: RandomCell, name: str, steps: int, batch: int, packed: bool, reverse: bool) -> None:
    reason = compiled_cell(cell)
    assert reason.traced is not None, (reason.reason, reason.line)
    truth = outcome(cell, "plain", steps, batch, packed, reverse)
    found = outcome(cell, name, steps, batch, packed, reverse)
    assert found.keys() == truth.keys()
    for key, right in truth.items():
        assert found[key].shape == right.shape, key
        assert found[key].dtype == right.dtype, key
        assert right.isfinite().all(), f"{key}: the step is not tame"
        error = float((found[key].double() - right.double()).abs().max()) if right.numel() else 0.0
        bound = TOLERANCE * max(1.0, float(right.double().abs().max()))
        assert error <= bound, f"{key} is off by {error:.1e}"


SIZES = {
    "choose": st.randoms(use_true_random=False),
    "steps": st.integers(1, 6),
    "batch": st.integers(1, 5),
    "packed": st.booleans(),
    "reverse": st.booleans(),
}


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(**SIZES)
def test_torch(choose: random.Random, steps: int, batch: int, packed: bool, reverse: bool) -> None:
    check(random_cell(choose), "torch", steps, batch, packed, reverse)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(**SIZES)
def test_torch_at_length(choose: random.Random, steps: int, batch: int, packed: bool, reverse: bool) -> None:
    check(random_cell(choose), "torch", steps, batch, packed, reverse)


def check_in_c(seed: int) -> None:
    choose = random.Random(seed)
    cell = random_cell(choose, only_c=True)
    with use("compiled"):
        in_c(cell)
    for packed, reverse in ((False, False), (True, True)):
        check(cell, "compiled", choose.randint(1, 6), choose.choice([1, 3, 14]), packed, reverse)


SHORT = (1, 2, 6, 7, 10)
"""Seeds of steps whose C a compiler is soon done with."""


@pytest.mark.parametrize("seed", SHORT)
def test_compiled(compiled: str, seed: int) -> None:
    check_in_c(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(130) if seed not in SHORT])
def test_compiled_at_length(compiled: str, seed: int) -> None:
    check_in_c(seed)
