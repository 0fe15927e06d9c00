"""The lag copying task: a shift register is perfect, the first p steps never count, zero scores one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, LagCopy


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def perfect(batch: Batch, lag: int) -> Tensor:
    """A shift register of p places, from the inputs alone."""
    register = [torch.zeros_like(batch.inputs[0])] * lag
    outputs = []
    for x in batch.inputs:
        register.append(x)
        outputs.append(register.pop(0))
    return torch.stack(outputs)


def test_written_out() -> None:
    """y_t = x_{t-2}, 0 for t <= 2."""
    batch = LagCopy(2, 1, 5).sample(1, generator())
    x = batch.inputs.flatten().tolist()
    assert batch.targets.flatten().tolist() == [0, 0, x[0], x[1], x[2]]
    assert batch.mask.flatten().tolist() == [False, False, True, True, True]


@given(lag=st.integers(1, 9), more=st.integers(1, 9), features=st.integers(1, 4), size=st.integers(1, 4))
def test_perfect_predictor(lag: int, more: int, features: int, size: int) -> None:
    task = LagCopy(lag, features, lag + more)
    batch = task.sample(size, generator(lag))
    assert batch.inputs.shape == batch.targets.shape == (task.steps, size, features)
    assert batch.mask.sum() == more * size
    outputs = perfect(batch, lag)
    assert float(task.loss(outputs, batch)) == task.metrics(outputs, batch)["mse"] == 0.0
    outputs[:lag] = 1e6  # not scored
    assert float(task.loss(outputs, batch)) == task.metrics(outputs, batch)["mse"] == 0.0
    outputs[lag] += 1.0  # scored: one step of the `more`
    assert float(task.loss(outputs, batch)) == pytest.approx(1 / more)


def test_memoryless_predictor_scores_the_baseline() -> None:
    """Zero has the variance of a standard normal number, 1, on the 8 steps that count; its square spreads by 2."""
    task = LagCopy()
    batch = task.sample(1000, generator())
    zero = torch.zeros(16, 1000, 5)
    spread = (2 / (8 * 1000 * 5)) ** 0.5
    assert task.memoryless_baseline == task.chance == 1.0
    assert float(task.loss(zero, batch)) == pytest.approx(1.0, abs=4 * spread)
    assert task.metrics(zero, batch)["mse"] == pytest.approx(1.0, abs=4 * spread)
    assert float(task.loss(batch.inputs, batch)) == pytest.approx(2.0, abs=8 * spread)  # the present is of no use


def test_masked_by_position() -> None:
    """Not by the value of the target, so that a step whose input is zero counts all the same."""
    task = LagCopy(1, 1, 3)
    batch = task.sample(1, generator())
    batch.targets[:] = 0
    assert float(task.loss(torch.ones(3, 1, 1), batch)) == 1.0
    assert batch.mask[:, 0].tolist() == [False, True, True]


def test_numbers_of_the_spec() -> None:
    task = LagCopy()
    assert (task.lag, task.input_size, task.output_size, task.steps) == (8, 5, 5, 16)
    assert (task.answer, task.metric) == ("every", "mse")


WRONG = {
    "lag 0": ({"lag": 0}, OptionError, "lag must be at least 1, got 0"),
    "lag = length": ({"lag": 16}, OptionError, "length must be more than the lag 16, else no step is scored, got 16"),
    "lag > length": ({"length": 3}, OptionError, "length must be more than the lag 8.*got 3"),
    "features 0": ({"features": 0}, OptionError, "features must be at least 1, got 0"),
    "length a float": ({"length": 16.0}, DTypeError, "length must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        LagCopy(**options)  # type: ignore[arg-type]
