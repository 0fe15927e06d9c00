"""The adding problem: two markers, one in each half; the sum at the end; 1/6 without memory."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Adding, Batch


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def perfect(batch: Batch) -> Tensor:
    """By hand, from the inputs alone: go through the steps and add what is marked."""
    total = torch.zeros(batch.inputs.shape[1], dtype=torch.float64)
    for step in batch.inputs.double():
        total += step[:, 0] * step[:, 1]
    return total[None, :, None]


@pytest.mark.parametrize(
    ("length", "first", "second"),
    [(2, [0], [1]), (3, [0], [2]), (4, [0, 1], [2, 3]), (5, [0, 1], [3, 4]), (9, [0, 1, 2, 3], [5, 6, 7, 8])],
)
def test_where_the_markers_stand(length: int, first: list[int], second: list[int]) -> None:
    """spec 6.2: one in the first floor(l/2) positions, one in ceil(l/2)..l-1; odd lengths leave the middle out."""
    marks = Adding(length).sample(400, generator()).inputs[..., 1]
    assert set(marks.unique().tolist()) <= {0.0, 1.0}
    assert marks[first].sum(0).eq(1).all()
    assert marks[second].sum(0).eq(1).all()
    assert marks.sum() == 800
    assert marks.sum(1).nonzero()[:, 0].tolist() == first + second  # each of them is used


def test_markers_and_values_are_uniform() -> None:
    x = Adding(10).sample(10_000, generator()).inputs
    assert (x[..., 1].mean(1) - 1 / 5).abs().max() < 4 * (1 / 5 * 4 / 5 / 10_000) ** 0.5
    values = x[..., 0].flatten().double()
    assert values.min() >= 0
    assert values.max() < 1
    assert values.mean() == pytest.approx(1 / 2, abs=4 * (1 / 12 / 100_000) ** 0.5)
    assert values.square().mean() == pytest.approx(1 / 3, abs=4 * (4 / 45 / 100_000) ** 0.5)


@given(length=st.integers(2, 40), size=st.integers(1, 5))
def test_perfect_predictor(length: int, size: int) -> None:
    task = Adding(length)
    batch = task.sample(size, generator(length))
    assert batch.inputs.shape == (length, size, 2)
    assert batch.targets.shape == (1, size, 1)
    assert batch.mask.shape == (1, size)
    assert float(task.loss(perfect(batch), batch)) < 1e-13  # the targets are rounded to float32
    assert task.metrics(perfect(batch), batch)["mse"] < 1e-13


def test_memoryless_predictor_scores_the_baseline() -> None:
    """The constant 1; the square of (u + v - 1) has mean 1/6 and variance 1/15 - 1/36."""
    task = Adding(50)
    batch = task.sample(20_000, generator())
    constant = torch.ones(1, 20_000, 1)
    assert task.memoryless_baseline == task.chance == 1 / 6
    spread = ((1 / 15 - 1 / 36) / 20_000) ** 0.5
    assert float(task.loss(constant, batch)) == pytest.approx(1 / 6, abs=4 * spread)
    assert task.metrics(constant, batch)["mse"] == pytest.approx(1 / 6, abs=4 * spread)
    for other in (0.9, 1.1):  # no better constant
        assert float(task.loss(other * constant, batch)) > float(task.loss(constant, batch))


def test_one_marked_value_is_not_enough() -> None:
    """Who forgets the first half keeps the variance of one uniform number, 1/12."""
    task = Adding(20)
    batch = task.sample(20_000, generator())
    second = (batch.inputs[10:, :, 0] * batch.inputs[10:, :, 1]).sum(0)[None, :, None] + 0.5
    spread = ((1 / 80 - 1 / 144) / 20_000) ** 0.5
    assert float(task.loss(second, batch)) == pytest.approx(1 / 12, abs=4 * spread)


def test_it_is_judged_by_error() -> None:
    assert (Adding.answer, Adding.metric) == ("last", "mse")


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="length must be at least 2, got 1"):
        Adding(1)
    with pytest.raises(DTypeError, match="length must be a whole number"):
        Adding(10.0)  # type: ignore[arg-type]
