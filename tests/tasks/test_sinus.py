"""The sinus tasks: a function of the input, at once or late; zero scores (1 - exp(-2 w^2)) / 2."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import DTypeError, OptionError
from engram.tasks import CopySinus, LagCopy, Sinus


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_written_out() -> None:
    """sin(3 x_t), and sin(3 x_{t-2}) with 0 for t <= 2."""
    now = Sinus(1, 4).sample(1, generator())
    x = now.inputs.flatten().tolist()
    assert now.targets.flatten().tolist() == pytest.approx([math.sin(3 * value) for value in x], abs=1e-7)
    assert now.mask.all()
    late = CopySinus(1, 4, lag=2).sample(1, generator())
    assert late.inputs.equal(now.inputs)
    expected = [0, 0, math.sin(3 * x[0]), math.sin(3 * x[1])]
    assert late.targets.flatten().tolist() == pytest.approx(expected, abs=1e-7)
    assert late.mask.flatten().tolist() == [False, False, True, True]


@given(lag=st.integers(0, 5), more=st.integers(1, 5), features=st.integers(1, 4), frequency=st.floats(0.1, 10))
def test_perfect_predictor(lag: int, more: int, features: int, frequency: float) -> None:
    length = lag + more
    task = CopySinus(features, length, frequency, lag) if lag else Sinus(features, length, frequency)
    batch = task.sample(3, generator(lag))
    outputs = torch.full((length, 3, features), 1e6, dtype=torch.float64)  # the first p steps are not scored
    for t in range(lag, length):
        outputs[t] = torch.sin(frequency * batch.inputs[t - lag].double())
    assert float(task.loss(outputs, batch)) < 1e-14
    assert task.metrics(outputs, batch)["mse"] < 1e-14


@pytest.mark.parametrize("frequency", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("kind", [Sinus, CopySinus])
def test_memoryless_predictor_scores_the_baseline(kind: type[Sinus], frequency: float) -> None:
    """E sin^2 = (1 - e^(-2w^2)) / 2; with E sin^4 = (3 - 4 e^(-2w^2) + e^(-8w^2)) / 8 its spread is known too."""
    task = kind(frequency=frequency)
    batch = task.sample(500, generator())
    decay = math.exp(-2 * frequency**2)
    assert task.memoryless_baseline == task.chance == pytest.approx((1 - decay) / 2)
    variance = (3 - 4 * decay + decay**4) / 8 - task.memoryless_baseline**2
    zero = torch.zeros_like(batch.targets)
    spread = (variance / (int(batch.mask.sum()) * 5)) ** 0.5
    assert float(task.loss(zero, batch)) == pytest.approx(task.memoryless_baseline, abs=4 * spread)
    assert task.metrics(zero, batch)["mse"] == pytest.approx(task.memoryless_baseline, abs=4 * spread)


def test_a_shift_is_not_enough() -> None:
    """The best multiple of x_{t-p} leaves E sin^2(wx) - (w e^(-w^2/2))^2; at w = 3 nearly all."""
    task = CopySinus()
    batch = task.sample(2000, generator())
    slope = 3 * math.exp(-9 / 2)
    shifted = torch.cat([torch.zeros(4, 2000, 5), slope * batch.inputs[:-4]])
    assert float(task.loss(shifted, batch)) == pytest.approx(task.memoryless_baseline - slope**2, abs=0.005)


def test_numbers_of_the_spec() -> None:
    task = CopySinus()
    assert (task.input_size, task.output_size, task.steps, task.frequency, task.lag) == (5, 5, 16, 3.0, 4)
    assert round(task.memoryless_baseline, 6) == 0.5
    assert Sinus.metric == CopySinus.metric == "mse"


def test_same_inputs_as_lag_copy() -> None:
    """The three tasks differ in the target only."""
    assert CopySinus().sample(3, generator()).inputs.equal(LagCopy().sample(3, generator()).inputs)


WRONG = {
    "lag 0": ({"lag": 0}, OptionError, "lag must be at least 1, got 0"),
    "lag = length": ({"lag": 16}, OptionError, "length must be more than the lag 16, else no step is scored, got 16"),
    "features 0": ({"features": 0}, OptionError, "features must be at least 1, got 0"),
    "length 0": ({"length": 0}, OptionError, "length must be at least 1, got 0"),
    "frequency 0": ({"frequency": 0.0}, OptionError, "frequency must lie between 0 and inf, exclusive, got 0.0"),
    "frequency nan": ({"frequency": math.nan}, OptionError, "frequency must lie between"),
    "frequency inf": ({"frequency": math.inf}, OptionError, "frequency must lie between"),
    "frequency text": ({"frequency": "3"}, DTypeError, "frequency must be a number, got '3' of type str"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        CopySinus(**options)  # type: ignore[arg-type]
