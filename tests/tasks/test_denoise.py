"""The denoise problem: symbols at random places, in order; its baseline; nothing but symbols to look for."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, Denoise

CASES = [Denoise(1), Denoise(5, 3), Denoise(100), Denoise(4, 1)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def perfect(batch: Batch, task: Denoise) -> Tensor:
    """By hand, from the inputs alone: list the symbols that are not blank; after the marker, say them."""
    x, answer = batch.inputs.argmax(-1), torch.zeros(batch.targets.shape, dtype=torch.long)
    for column, tokens in enumerate(x.T.tolist()):
        marker = tokens.index(10)
        kept = [token for token in tokens[:marker] if token]
        answer[marker + 1 : marker + 1 + len(kept), column] = torch.tensor(kept)
    return 100.0 * torch.nn.functional.one_hot(answer, task.output_size).double()


def memoryless(batch: Batch, task: Denoise) -> Tensor:
    logits = torch.full((*batch.targets.shape, task.output_size), -100.0, dtype=torch.float64)
    logits[: -task.length, :, 0] = 100.0
    logits[-task.length :, :, 1:9] = 0.0
    return logits


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_layout(task: Denoise) -> None:
    """S symbols in the first T + S - 1 steps, the marker (10) at index T + S - 1, S blanks."""
    batch = task.sample(50, generator())
    x, marker = batch.inputs.argmax(-1), task.delay + task.length - 1
    assert batch.inputs.sum(-1).eq(1).all()
    assert len(x) == task.delay + 2 * task.length
    assert x[marker].eq(10).all()
    assert x[marker + 1 :].eq(0).all()
    before = x[:marker]
    assert before.max() <= 8
    assert (before > 0).sum(0).eq(task.length).all()
    assert batch.targets[: marker + 1].eq(0).all()
    assert batch.targets[marker + 1 :].T.equal(before.T[before.T > 0].view(50, task.length))
    assert batch.mask.equal(batch.targets > 0)


def test_no_room_to_move() -> None:
    """T = 1: the symbols fill all the places before the marker."""
    x = Denoise(1, 4).sample(20, generator()).inputs.argmax(-1)
    assert x[:4].min() >= 1


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_perfect_predictor(task: Denoise) -> None:
    batch = task.sample(16, generator())
    logits = perfect(batch, task)
    assert task.metrics(logits, batch) == {"accuracy": 1.0}
    assert float(task.loss(logits, batch)) < 1e-6


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_memoryless_predictor_scores_the_baseline(task: Denoise) -> None:
    batch = task.sample(500, generator())
    logits = memoryless(batch, task)
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-9)
    spread = (1 / 8 * 7 / 8 / (500 * task.length)) ** 0.5
    assert task.metrics(logits, batch)["accuracy"] == pytest.approx(task.chance, abs=4 * spread)


def test_numbers_of_the_spec() -> None:
    task = Denoise(100)
    assert (task.input_size, task.output_size, task.steps, task.chance) == (11, 10, 120, 1 / 8)
    assert task.memoryless_baseline == pytest.approx(10 * math.log(8) / 120)


def test_places_and_symbols_are_uniform() -> None:
    """Every place before the marker holds a symbol as often, 3 of 8; every symbol is as likely; pairs too."""
    x = Denoise(6, 3).sample(8000, generator()).inputs.argmax(-1)[:8]
    held = (x > 0).double()
    assert (held.mean(1) - 3 / 8).abs().max() < 4 * (3 / 8 * 5 / 8 / 8000) ** 0.5
    pair = 3 * 2 / (8 * 7)  # both of two given places
    both = (held @ held.T / 8000)[~torch.eye(8, dtype=torch.bool)]
    assert (both - pair).abs().max() < 4.5 * (pair * (1 - pair) / 8000) ** 0.5  # 28 pairs
    share = torch.bincount(x[x > 0], minlength=11)[1:9] / 24_000
    assert (share - 1 / 8).abs().max() < 4 * (1 / 8 * 7 / 8 / 24_000) ** 0.5


@given(delay=st.integers(1, 20), length=st.integers(1, 8), size=st.integers(1, 4))
def test_any_size_can_be_solved(delay: int, length: int, size: int) -> None:
    task = Denoise(delay, length)
    batch = task.sample(size, generator(delay))
    assert batch.inputs.shape == (delay + 2 * length, size, 11)
    assert task.metrics(perfect(batch, task), batch)["accuracy"] == 1.0


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="delay must be at least 1, got 0"):
        Denoise(0)
    with pytest.raises(OptionError, match="length must be at least 1, got 0"):
        Denoise(length=0)
    with pytest.raises(DTypeError, match="delay must be a whole number"):
        Denoise(2.0)  # type: ignore[arg-type]
