"""Start-end similarity: the two strings, the three classes, the edges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, StartEnd

CASES = [StartEnd(), StartEnd(8, 2, 2), StartEnd(60, 30, 32), StartEnd(6, 3, 2), StartEnd(22, 5, 3)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def strings(batch: Batch, task: StartEnd) -> tuple[Tensor, Tensor, list[int]]:
    """The two strings ``(m, B)`` and where the first starts, from the inputs alone."""
    x, half = batch.inputs.argmax(-1), task.length // 2
    blank = task.length > 2 * task.data
    starts = [column.tolist().index(next(k for k in column.tolist() if k)) if blank else 0 for column in x.T]
    first = torch.stack([x[t : t + task.data, i] for i, t in enumerate(starts)], 1)
    second = torch.stack([x[t + half : t + half + task.data, i] for i, t in enumerate(starts)], 1)
    return first, second, starts


def perfect(batch: Batch, task: StartEnd) -> Tensor:
    """By hand: count the pairs that agree; none, all, or else half."""
    first, second, _ = strings(batch, task)
    agree = (first == second).sum(0)
    answer = torch.where(agree == 0, 0, torch.where(agree == task.data, 2, 1))
    return 100.0 * torch.nn.functional.one_hot(answer, 3)[None].double()


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_layout(task: StartEnd) -> None:
    """Blanks but for two strings of m symbols, T/2 apart, the first starting in 1..T/2-m (from 0 here)."""
    batch = task.sample(300, generator())
    assert batch.inputs.shape == (task.length, 300, task.input_size)
    assert batch.inputs.sum(-1).eq(1).all()
    assert batch.targets.shape == batch.mask.shape == (1, 300)
    _, _, starts = strings(batch, task)
    assert set(starts) == set(range(max(task.length // 2 - task.data, 1)))
    if task.length > 2 * task.data:
        x = batch.inputs.argmax(-1)
        expected = torch.zeros_like(x, dtype=torch.bool)
        for column, t in enumerate(starts):
            for begin in (t, t + task.length // 2):
                expected[begin : begin + task.data, column] = True
        assert (x > 0).equal(expected)


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_the_number_of_pairs_that_agree(task: StartEnd) -> None:
    batch = task.sample(300, generator())
    first, second, _ = strings(batch, task)
    half = {2: 1, 3: 2, 5: 2, 10: 5, 30: 15}[task.data]
    agree, classes = (first == second).sum(0), batch.targets[0]
    assert agree.equal(torch.tensor([0, half, task.data])[classes])
    assert classes.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize(("data", "half"), [(2, 1), (3, 2), (4, 2), (5, 2), (7, 4), (9, 4)])
def test_half_of_an_odd_number_is_rounded_to_even(data: int, half: int) -> None:
    task = StartEnd(2 * data, data)
    batch = task.sample(60, generator())
    first, second, _ = strings(batch, task)
    middle = batch.targets[0] == 1
    assert middle.any()
    assert (first == second).sum(0)[middle].eq(half).all()


def test_two_symbols_written_out() -> None:
    """n = 2, m = 2, T = 4: all strings, no blank; a pair that differs is the other symbol."""
    batch = StartEnd(4, 2, 2).sample(1000, generator())
    seen = {
        ("".join("AB"[k] for k in x), int(c)) for x, c in zip(batch.inputs.argmax(-1).T, batch.targets[0], strict=True)
    }
    assert {x for x, c in seen if c == 2} == {"AAAA", "ABAB", "BABA", "BBBB"}
    assert {x for x, c in seen if c == 0} == {"AABB", "ABBA", "BAAB", "BBAA"}
    assert {x for x, c in seen if c == 1} == {"AAAB", "AABA", "ABAA", "ABBB", "BAAA", "BABB", "BBAB", "BBBA"}


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_perfect_predictor(task: StartEnd) -> None:
    batch = task.sample(50, generator())
    assert task.metrics(perfect(batch, task), batch) == {"accuracy": 1.0}
    assert float(task.loss(perfect(batch, task), batch)) < 1e-6


@pytest.mark.parametrize("task", CASES, ids=repr)
def test_memoryless_predictor_scores_the_baseline(task: StartEnd) -> None:
    """ln 3 exactly; and each class is as likely, within four standard errors."""
    batch = task.sample(3000, generator())
    logits = torch.zeros(1, 3000, 3, dtype=torch.float64)
    assert float(task.loss(logits, batch)) == pytest.approx(math.log(3), abs=1e-12)
    assert task.memoryless_baseline == math.log(3)
    share = torch.bincount(batch.targets[0], minlength=3) / 3000
    assert (share - task.chance).abs().max() < 4 * (1 / 3 * 2 / 3 / 3000) ** 0.5


def test_places_and_symbols_are_uniform() -> None:
    """Where the half agrees, what the symbols are, and by what they differ."""
    task = StartEnd(20, 4, 3)
    batch = task.sample(9000, generator())
    first, second, starts = strings(batch, task)
    middle = batch.targets[0] == 1
    count = int(middle.sum())
    assert ((first == second)[:, middle].double().mean(1) - 1 / 2).abs().max() < 4 * (1 / 4 / count) ** 0.5
    for string in (first, second):
        share = torch.bincount(string.flatten(), minlength=4)[1:] / string.numel()
        assert (share - 1 / 3).abs().max() < 4 * (1 / 3 * 2 / 3 / 9000) ** 0.5
    gap = ((second - first) % 3)[:, batch.targets[0] == 0]
    assert (gap == 1).double().mean() == pytest.approx(1 / 2, abs=4 * (1 / 4 / gap.numel()) ** 0.5)
    share = torch.bincount(torch.tensor(starts), minlength=6) / 9000
    assert (share - 1 / 6).abs().max() < 4 * (1 / 6 * 5 / 6 / 9000) ** 0.5


def test_sizes() -> None:
    """The blank symbol goes only at T = 2m."""
    assert [StartEnd(T, 30, 32).input_size for T in (60, 62, 90)] == [32, 33, 33]
    task = StartEnd()
    assert (task.output_size, task.steps, task.chance, task.answer) == (3, 100, 1 / 3, "last")
    x = StartEnd(60, 30, 32).sample(50, generator()).inputs.argmax(-1)
    assert (int(x.min()), int(x.max())) == (0, 31)  # no symbol is lost with the blank


@given(data=st.integers(2, 9), more=st.integers(0, 10), symbols=st.integers(2, 9), size=st.integers(1, 4))
def test_any_size_can_be_solved(data: int, more: int, symbols: int, size: int) -> None:
    task = StartEnd(2 * (data + more), data, symbols)
    batch = task.sample(size, generator(more))
    assert task.metrics(perfect(batch, task), batch)["accuracy"] == 1.0


WRONG = {
    "odd": ({"length": 61}, OptionError, "length must be even.*got 61"),
    "short": ({"length": 18, "data": 10}, OptionError, "length must be at least 20, to hold 2 x data, got 18"),
    "one pair": ({"data": 1}, OptionError, "data must be at least 2, got 1"),
    "one symbol": ({"symbols": 1}, OptionError, "symbols must be at least 2, got 1"),
    "float": ({"length": 100.0}, DTypeError, "length must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        StartEnd(**options)  # type: ignore[arg-type]
