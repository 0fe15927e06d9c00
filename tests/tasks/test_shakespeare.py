"""Tiny Shakespeare: 65 characters, the authors' chunks, a split that never leaks."""

import math

import pytest
import torch
import torch.nn.functional as F

from engram.errors import DTypeError, OptionError
from engram.tasks import TinyShakespeare, make_task
from engram.tasks._data import read
from engram.tasks._shakespeare import chunks, shakespeare

pytestmark = pytest.mark.usefixtures("data_sets")


def text() -> str:
    return read("tinyshakespeare/input.txt").decode("ascii")


@pytest.mark.usefixtures("real_data")
def test_the_published_text_is_what_its_readme_says() -> None:
    """And its split is the same everywhere."""
    assert len(shakespeare()[0]) == 1_115_394
    assert text().count("\n") == 40_000
    alphabet = shakespeare()[1].decode()
    first = "".join(alphabet[s] for s in chunks(64)["train"][0].tolist())
    assert first == ", his haste good hope:\nThen wherefore dost thou hope he is not s"
    assert round(TinyShakespeare().chance, 2) == 4.78  # 4.77 over the whole text


def test_the_numbers_spell_the_text() -> None:
    symbols, alphabet = shakespeare()
    assert len(alphabet) == symbols.unique().numel() == TinyShakespeare.vocabulary == 65
    assert bytes(alphabet[s] for s in symbols[:5000].tolist()).decode() == text()[:5000]


def test_chunks_of_the_authors() -> None:
    """15 685 chunks of 64 from the first 1 003 854 characters, each in exactly one split."""
    parts = chunks(64)
    assert [len(part) for part in parts.values()] == [12_548, 1_568, 1_569]
    assert list(parts) == ["train", "valid", "test"]
    alphabet = shakespeare()[1].decode()
    said = ["".join(alphabet[s] for s in row) for part in parts.values() for row in part.tolist()]
    whole = text()
    assert sorted(said) == sorted(whole[i : i + 64] for i in range(0, 1_003_854 - 63, 64))
    mean = torch.stack([part.double().mean() for part in parts.values()])
    assert mean.max() - mean.min() < 0.5  # drawn at random: the parts are alike


@pytest.mark.parametrize("length", [2, 10, 63, 64, 65, 1000, 100_385])
def test_any_length(length: int) -> None:
    parts = chunks(length)
    assert sum(len(part) for part in parts.values()) == 1_003_854 // length
    assert all(len(part) for part in parts.values())
    assert TinyShakespeare(length).steps == length - 1


def test_protocol_of_the_paper() -> None:
    task = TinyShakespeare()
    assert (task.steps, task.input_size, task.output_size, task.embedding) == (63, 65, 65, 107)
    batches = task.batches("train", 128)
    assert not batches.carries
    assert batches.per_epoch == 98
    batch = batches[3]
    assert batch.inputs.shape == batch.targets.shape == batch.mask.shape == (63, 128)
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64
    assert batch.mask.all()
    assert batch.inputs[1:].equal(batch.targets[:-1])
    assert task.batches("valid", 128).per_epoch == task.batches("test", 128).per_epoch == 13


def test_perfect_predictor() -> None:
    """The next input, and for the last step a table from the chunk to its last character."""
    task = TinyShakespeare()
    part = chunks(64)["test"]
    table = {tuple(row[:-1]): row[-1] for row in part.tolist()}
    assert len(table) == len(part)
    batch = task.batches("test", 300)[5]
    last = torch.tensor([table[tuple(row)] for row in batch.inputs.T.tolist()])
    logits = 100.0 * F.one_hot(torch.cat([batch.inputs[1:], last[None]]), 65).double()
    assert float(task.loss(logits, batch)) < 1e-6
    assert task.metrics(logits, batch) == {"bpc": pytest.approx(0, abs=1e-6), "accuracy": 1.0}


def test_memoryless_predictor_scores_the_baseline() -> None:
    """Over the whole training split exactly."""
    task = TinyShakespeare()
    batch = task.batches("train", 12_548)[0]
    share = torch.bincount(batch.targets.flatten(), minlength=65).double() / batch.targets.numel()
    logits = share.log().clamp(min=-1e3).float().expand(*batch.targets.shape, 65)
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-5)
    assert task.chance == task.memoryless_baseline / math.log(2)


def test_same_seed_same_batch() -> None:
    task = TinyShakespeare()
    one, two, other = (task.batches("train", 32, seed) for seed in (1, 1, 2))
    for k in (900, 0, 391):
        assert all(a.equal(b) for a, b in zip(one[k], two[k], strict=True))
        assert not one[k].inputs.equal(other[k].inputs)
    assert task.batches("valid", 32, 1)[0].inputs.equal(task.batches("valid", 32, 2)[0].inputs)
    seeds = [task.sample(5, torch.Generator().manual_seed(seed)).inputs for seed in (0, 0, 1)]
    assert seeds[0].equal(seeds[1])
    assert not seeds[0].equal(seeds[2])


def test_small_runs() -> None:
    task = TinyShakespeare()
    assert task.batches("train", 32, size=100).per_epoch == 3
    assert task.batches("test", 32, size=100).per_epoch == 4


WRONG = {
    "length 1": ({"length": 1}, OptionError, "length must be at least 2"),
    "length a float": ({"length": 64.0}, DTypeError, "length must be a whole number"),
    "length too large": ({"length": 100_386}, OptionError, "length must be at most 100385"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        make_task("shakespeare", **options)
