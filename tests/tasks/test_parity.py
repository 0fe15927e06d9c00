"""The parity task: the running product, by counting; zero scores one; a guess is right half the time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, Parity


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def perfect(batch: Batch) -> Tensor:
    """The exact network from the inputs alone: h_t = h_{t-1} + (1 - x_t)/2, y_t = cos(pi h_t)."""
    h, outputs = torch.zeros(batch.inputs.shape[1:], dtype=torch.float64), []
    for x in batch.inputs.double():
        h = h + (1 - x) / 2
        outputs.append(torch.cos(torch.pi * h))
    return torch.stack(outputs)


def test_written_out() -> None:
    """Among all sequences of three signs, - + - asks for - - +."""
    batch = Parity(1, 3).sample(100, generator())
    pairs = {
        ("".join("-+"[int(v > 0)] for v in x), "".join("-+"[int(v > 0)] for v in y))
        for x, y in zip(batch.inputs[..., 0].T, batch.targets[..., 0].T, strict=True)
    }
    assert pairs == {
        *[("+++", "+++"), ("++-", "++-"), ("+-+", "+--"), ("+--", "+-+")],
        *[("-++", "---"), ("-+-", "--+"), ("--+", "-++"), ("---", "-+-")],
    }


@given(features=st.integers(1, 5), length=st.integers(1, 40), size=st.integers(1, 4))
def test_perfect_predictor(features: int, length: int, size: int) -> None:
    task = Parity(features, length)
    batch = task.sample(size, generator(length))
    assert batch.inputs.shape == batch.targets.shape == (length, size, features)
    assert batch.inputs.abs().eq(1).all()
    assert batch.mask.all()
    assert float(task.loss(perfect(batch), batch)) < 1e-20
    scores = task.metrics(perfect(batch), batch)
    assert scores["accuracy"] == 1.0
    assert scores["mse"] < 1e-20
    assert task.metrics(-perfect(batch), batch)["accuracy"] == 0.0


def test_memoryless_predictor_scores_the_baseline() -> None:
    """Zero: exactly 1. A constant sign, or the last input's: right half the time, within four standard errors."""
    task = Parity()
    batch = task.sample(1000, generator())
    assert float(task.loss(torch.zeros_like(batch.targets), batch)) == task.memoryless_baseline == 1.0
    spread = (1 / 4 / (20 * 1000 * 5)) ** 0.5
    share = task.metrics(torch.ones_like(batch.targets), batch)["accuracy"]
    assert share == pytest.approx(task.chance, abs=4 * spread)
    later = Batch(batch.inputs[1:], batch.targets[1:], batch.mask[1:])  # at the first step the input is the answer
    assert task.metrics(later.inputs, later)["accuracy"] == pytest.approx(0.5, abs=4 * spread)


def test_signs_are_fair_at_every_step() -> None:
    inputs, targets, _ = Parity().sample(4000, generator())
    for signs in (inputs, targets):
        assert signs.mean(1).abs().max() < 4.5 * (1 / 4000) ** 0.5  # of 100 means


def test_only_the_sign_counts_for_accuracy() -> None:
    task = Parity()
    batch = task.sample(10, generator())
    assert task.metrics(0.01 * batch.targets, batch)["accuracy"] == 1.0
    assert task.metrics(0.5 * batch.targets, batch)["mse"] == 0.25
    assert task.metrics(0 * batch.targets, batch)["accuracy"] == 0.0  # no sign is not the right sign


def test_numbers_of_the_spec() -> None:
    task = Parity()
    assert (task.input_size, task.output_size, task.steps, task.chance) == (5, 5, 20, 0.5)
    assert task.metric == "accuracy"


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="features must be at least 1, got 0"):
        Parity(0)
    with pytest.raises(OptionError, match="length must be at least 1, got 0"):
        Parity(length=0)
    with pytest.raises(DTypeError, match="length must be a whole number"):
        Parity(length=2.0)  # type: ignore[arg-type]
