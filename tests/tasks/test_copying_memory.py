"""The copying memory problem: the thesis's string, its baseline, its bits, and no delay at all."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, CopyingMemory

CASES = [CopyingMemory(5, 3, 2), CopyingMemory(0, 4, 32), CopyingMemory(0, 1, 2), CopyingMemory()]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def text(tokens: Tensor, symbols: int) -> str:
    """Blank, symbols and trigger as the thesis writes them."""
    return "".join("_ABCDEFGH"[: symbols + 1][k] if k <= symbols else ":" for k in tokens.tolist())


def perfect(batch: Batch, task: CopyingMemory) -> Tensor:
    """By hand, from the inputs alone: from the trigger on, say what came first."""
    x, answer = batch.inputs.argmax(-1), torch.zeros(batch.targets.shape, dtype=torch.long)
    for column in range(x.shape[1]):
        trigger = x[:, column].tolist().index(task.symbols + 1)
        answer[trigger : trigger + task.length, column] = x[: task.length, column]
    return 100.0 * torch.nn.functional.one_hot(answer, task.output_size).double()


def memoryless(batch: Batch, task: CopyingMemory) -> Tensor:
    logits = torch.full((*batch.targets.shape, task.output_size), -100.0, dtype=torch.float64)
    logits[: -task.length, :, 0] = 100.0
    logits[-task.length :, :, 1:-1] = 0.0
    return logits


def test_the_string_of_the_spec() -> None:
    """m = 3, B = 5: ABA_____:__ asks for ________ABA; both are among the strings of a large batch."""
    task = CopyingMemory(delay=5, length=3, symbols=2)
    batch = task.sample(200, generator())
    pairs = {
        (text(x, 2), text(y, 2))
        for x, y in zip(batch.inputs.argmax(-1).unbind(1), batch.targets.unbind(1), strict=True)
    }
    assert ("ABA_____:__", "________ABA") in pairs
    assert len(pairs) == 2**3  # every datum, and nothing else
    assert all(x[3:] == "_____:__" and y == "_" * 8 + x[:3] for x, y in pairs)


def test_no_delay() -> None:
    """B = 0: the trigger comes right after the data, at T - m = m."""
    batch = CopyingMemory(0, 2, 3).sample(100, generator())
    strings = {text(x, 3) for x in batch.inputs.argmax(-1).unbind(1)}
    assert strings == {a + b + ":_" for a in "ABC" for b in "ABC"}
    assert CopyingMemory(0, 1, 2).sample(3, generator()).inputs.argmax(-1)[1].tolist() == [3, 3, 3]


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_perfect_predictor(task: CopyingMemory) -> None:
    batch = task.sample(16, generator())
    logits = perfect(batch, task)
    assert task.metrics(logits, batch) == {"accuracy": 1.0}
    assert float(task.loss(logits, batch)) < 1e-6


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_memoryless_predictor_scores_the_baseline(task: CopyingMemory) -> None:
    """m ln n / (B + 2m) to rounding; recall by chance within four standard errors."""
    batch = task.sample(500, generator())
    logits, n = memoryless(batch, task), task.symbols
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-9)
    spread = (1 / n * (1 - 1 / n) / (500 * task.length)) ** 0.5
    assert task.metrics(logits, batch)["accuracy"] == pytest.approx(task.chance, abs=4 * spread)


def test_numbers_of_the_spec() -> None:
    """Experiment 1: m = 30, n = 32, so d_in = d_out = 34."""
    task = CopyingMemory(50, 30, 32)
    assert (task.input_size, task.output_size, task.steps) == (34, 34, 110)
    assert task.memoryless_baseline == pytest.approx(30 * 5 * math.log(2) / 110)
    assert task.chance == 1 / 32


def test_every_symbol_is_as_likely() -> None:
    data = CopyingMemory(0, 10, 5).sample(2000, generator()).inputs.argmax(-1)[:10]
    share = torch.bincount(data.flatten(), minlength=7) / data.numel()
    assert share[0] == share[6] == 0
    assert (share[1:6] - 1 / 5).abs().max() < 4 * (1 / 5 * 4 / 5 / 20_000) ** 0.5


@given(delay=st.integers(0, 20), length=st.integers(1, 8), symbols=st.integers(2, 9), size=st.integers(1, 4))
def test_any_size_can_be_solved(delay: int, length: int, symbols: int, size: int) -> None:
    task = CopyingMemory(delay, length, symbols)
    batch = task.sample(size, generator(delay))
    assert batch.inputs.shape == (task.steps, size, symbols + 2)
    assert batch.mask.nonzero()[:, 0].unique().tolist() == list(range(task.steps - length, task.steps))
    assert batch.mask.sum() == length * size
    assert task.metrics(perfect(batch, task), batch)["accuracy"] == 1.0


WRONG = {
    "delay negative": ({"delay": -1}, OptionError, "delay must be at least 0, got -1"),
    "length 0": ({"length": 0}, OptionError, "length must be at least 1, got 0"),
    "one symbol": ({"symbols": 1}, OptionError, "symbols must be at least 2, got 1"),
    "symbols a float": ({"symbols": 8.0}, DTypeError, "symbols must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        CopyingMemory(**options)  # type: ignore[arg-type]
