"""The copying problem: its two layouts written out, its baseline reached exactly, its perfect score reachable."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.tasks import Batch, Copy

LAYOUTS = ["after", "at"]
DELAYS = [1, 2, 20, 200]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shown(batch: Batch) -> Tensor:
    """The symbols of the input ``(T, B)``, out of the one-hot code."""
    assert batch.inputs.sum(-1).eq(1).all()
    return batch.inputs.argmax(-1)


def perfect(batch: Batch, task: Copy) -> Tensor:
    """By hand: hold the first symbols, wait for the cue, say them one by one; blank before."""
    x, answer = shown(batch), torch.zeros(batch.targets.shape, dtype=torch.long)
    for column in range(x.shape[1]):
        cue = x[:, column].tolist().index(9)
        start = cue + (task.layout == "after")
        answer[start : start + task.length, column] = x[: task.length, column]
    return 100.0 * torch.nn.functional.one_hot(answer, task.output_size).double()


def memoryless(batch: Batch, task: Copy) -> Tensor:
    """Knows the time but not the symbols: blank where blank is due, then all eight symbols alike."""
    logits = torch.full((*batch.targets.shape, task.output_size), -100.0, dtype=torch.float64)
    logits[: -task.length, :, 0] = 100.0
    logits[-task.length :, :, 1:] = 0.0
    return logits


@pytest.mark.parametrize("delay", DELAYS)
def test_layout_after(delay: int) -> None:
    """Layout A (nnRNN): x = [s_1..s_10, 0^(T-1), 9, 0^10], y = [0^(T+10), s_1..s_10]."""
    batch = Copy(delay).sample(7, generator())
    x, symbols = shown(batch), shown(batch)[:10]
    assert len(x) == delay + 20
    assert symbols.min() >= 1
    assert symbols.max() <= 8
    blank = torch.zeros(1, 7, dtype=torch.long)
    assert x.equal(torch.cat([symbols, blank.expand(delay - 1, 7), blank + 9, blank.expand(10, 7)]))
    assert batch.targets.equal(torch.cat([blank.expand(delay + 10, 7), symbols]))
    assert batch.mask.equal(batch.targets > 0)


@pytest.mark.parametrize("delay", DELAYS)
def test_layout_at(delay: int) -> None:
    """Layout B (uRNN): x = [s_1..s_10, 0^T, 9, 0^9], the same y."""
    batch = Copy(delay, layout="at").sample(7, generator())
    x, symbols = shown(batch), shown(batch)[:10]
    blank = torch.zeros(1, 7, dtype=torch.long)
    assert x.equal(torch.cat([symbols, blank.expand(delay, 7), blank + 9, blank.expand(9, 7)]))
    assert batch.targets.equal(torch.cat([blank.expand(delay + 10, 7), symbols]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("delay", DELAYS)
def test_perfect_predictor(layout: str, delay: int) -> None:
    task = Copy(delay, layout=layout)
    batch = task.sample(16, generator())
    logits = perfect(batch, task)
    assert task.metrics(logits, batch)["accuracy"] == 1.0
    assert float(task.loss(logits, batch)) < 1e-6  # exp(-100), eight times


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("delay", DELAYS)
def test_memoryless_predictor_scores_the_baseline(layout: str, delay: int) -> None:
    """S ln 8 / (T + 2S), to 1e-6 (float64; exp(-100) is left to the impossible answers); recall by chance."""
    task = Copy(delay, layout=layout)
    batch = task.sample(500, generator())
    logits = memoryless(batch, task)
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-6)
    assert task.metrics(logits, batch)["accuracy"] == pytest.approx(task.chance, abs=4 * (1 / 8 * 7 / 8 / 5000) ** 0.5)


def test_numbers_of_the_papers() -> None:
    task = Copy(200)
    assert (task.input_size, task.output_size, task.steps) == (10, 9, 220)
    assert task.chance == 1 / 8
    assert task.memoryless_baseline == pytest.approx(10 * math.log(8) / 220)
    assert round(task.memoryless_baseline, 5) == 0.09452


@given(delay=st.integers(1, 30), length=st.integers(1, 12), size=st.integers(1, 5), layout=st.sampled_from(LAYOUTS))
def test_any_size_can_be_solved(delay: int, length: int, size: int, layout: str) -> None:
    task = Copy(delay, length, layout)
    batch = task.sample(size, generator(delay))
    assert batch.inputs.shape == (task.steps, size, task.input_size) == (delay + 2 * length, size, 10)
    assert batch.inputs.dtype == torch.float32
    assert batch.mask.sum() == length * size
    assert task.metrics(perfect(batch, task), batch)["accuracy"] == 1.0


def test_every_symbol_is_as_likely() -> None:
    """20 000 draws: within four standard errors of 1/8."""
    symbols = shown(Copy(1).sample(2000, generator()))[:10]
    share = torch.bincount(symbols.flatten(), minlength=9)[1:] / symbols.numel()
    assert (share - 1 / 8).abs().max() < 4 * (1 / 8 * 7 / 8 / 20_000) ** 0.5
