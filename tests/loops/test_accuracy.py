"""The compiled tanh and sigmoid, over a dense grid, in units of the last place."""

import pytest
import torch
from recurrences import additive
from torch import Tensor

from engram.loops import use

WIDTH = 64  # whole vectors
# Relative, in units of eps: a series of 7 or 13 terms and a division round at 1.9 eps at worst. In float64 the truth,
# torch's own, is itself off by up to 0.6 eps.
BOUND = {torch.float32: 2.0, torch.float64: 3.0}
# tanh is told from 1, and sigmoid from 0, up to here.
SPAN = {(torch.float32, "tanh"): 12, (torch.float64, "tanh"): 25, (torch.float32, "sigmoid"): 87,
        (torch.float64, "sigmoid"): 708}  # fmt: skip


def apply(activation: str, drive: Tensor) -> Tensor:
    """act(drive) by the compiled loop: one step, with the identity as input projection and no recurrence."""
    dtype, rows = drive.dtype, drive.view(1, -1, WIDTH)
    start, nothing = torch.zeros(rows.shape[1], WIDTH, dtype=dtype), torch.zeros(WIDTH, WIDTH, dtype=dtype)
    with use("compiled"):
        return additive(rows, torch.eye(WIDTH, dtype=dtype), None, nothing, start, activation=activation)[0].flatten()


def grid(dtype: torch.dtype, activation: str) -> Tensor:
    """Evenly over the span, evenly around zero, and logarithmically down to the tiniest normal number."""
    span, count = float(SPAN[dtype, activation]), 4096 * WIDTH // 4
    tiny = torch.logspace(-30 if dtype == torch.float32 else -300, 0, count, dtype=torch.float64)
    even = torch.linspace(-1, 1, count, dtype=torch.float64)
    return torch.cat([span * even, even, tiny, -tiny]).to(dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_relative_error(compiled: str, activation: str, dtype: torch.dtype) -> None:
    drive = grid(dtype, activation)
    truth = getattr(torch, activation)(drive.double())
    found = apply(activation, drive).double()
    error = ((found - truth).abs() / truth.abs())[truth != 0] / torch.finfo(dtype).eps
    assert len(error) > 200_000
    assert error.max() <= BOUND[dtype], f"{float(error.max()):.2f} eps at {float(drive[truth != 0][error.argmax()])}"


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_stays_in_range(compiled: str, activation: str, dtype: torch.dtype) -> None:
    """|tanh| <= 1 and 0 <= sigmoid <= 1 without exception: a state of 1 + eps would have a negative slope."""
    drive = torch.cat([grid(dtype, activation), 1e4 * torch.randn(100 * WIDTH, dtype=dtype)])
    found = apply(activation, drive)
    assert found.max() == 1
    assert found.min() == (-1 if activation == "tanh" else 0)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_tanh_is_odd_and_close_to_increasing(compiled: str, dtype: torch.dtype) -> None:
    """tanh(-x) = -tanh(x) to 4 eps (twice the bound above), and no step down by more than that."""
    drive = torch.linspace(-5, 5, 1000 * WIDTH, dtype=dtype)
    found, eps = apply("tanh", drive), torch.finfo(dtype).eps
    torch.testing.assert_close(apply("tanh", -drive), -found, rtol=4 * eps, atol=0)
    assert (found.diff() >= -4 * eps * found[1:].abs()).all()
