"""Penn Treebank: the corpus of the papers; streams that are whole, in order and carried on."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import DTypeError, OptionError
from engram.tasks import PennTreebank, make_task
from engram.tasks._data import read
from engram.tasks._text import Windows, characters, treebank

pytestmark = pytest.mark.usefixtures("data_sets")


@given(st.integers(2, 300), st.integers(1, 20), st.integers(1, 40))
def test_streams_are_contiguous_and_whole(size: int, streams: int, bptt: int) -> None:
    """Put together again, the windows of a stream are a piece of the text; the streams follow one another."""
    text = torch.arange(size)
    windows = Windows(text, streams, bptt)
    batches = [windows[k] for k in range(windows.per_epoch)]
    assert all(batch.inputs.shape[0] == bptt for batch in batches[:-1])
    assert 1 <= len(batches[-1].inputs) <= bptt
    inputs, targets = (torch.cat(parts) for parts in zip(*(b[:2] for b in batches), strict=True))
    assert targets.equal(inputs + 1)  # the next symbol, also over the edge of a window
    assert inputs[1:].equal(targets[:-1])
    count, used = inputs.shape[1], len(inputs) + 1
    assert count == min(streams, size // 2)
    assert inputs[0].equal(torch.arange(count) * used)
    assert size - count < count * used <= size  # fewer symbols than streams are left out
    assert windows.carries
    assert all(batch.mask.all() and batch.mask.shape == batch.targets.shape for batch in batches)


def test_windows_go_on_with_the_next_epoch() -> None:
    windows = Windows(torch.arange(100), 3, 7)
    assert windows.per_epoch == 5  # 33 symbols a stream, 32 to predict
    assert windows[5].inputs.equal(windows[0].inputs)
    assert windows[4].inputs.shape == (4, 3)
    assert windows[9].targets.equal(windows[4].targets)


@pytest.mark.usefixtures("real_data")
def test_the_published_corpus_is_what_its_readme_says() -> None:
    sizes = {"train": 5_017_482, "valid": 393_042, "test": 442_423}
    for split, size in sizes.items():
        symbols, alphabet = treebank(split)
        assert len(symbols) == size
        assert len(alphabet) == len(set(alphabet)) == PennTreebank.vocabulary == 50
        assert alphabet[0] == ord("\n")
    assert treebank("train")[0].unique().tolist() == list(range(50))
    task = PennTreebank()
    assert task.chance == pytest.approx(4.33401, abs=1e-5)  # measured; bits
    assert task.memoryless_baseline == pytest.approx(3.00411, abs=1e-5)
    assert task.metric == "bpc"


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_numbers_spell_the_text(split: str) -> None:
    symbols, alphabet = treebank(split)
    *lines, end = read(f"ptb/ptb.char.{split}.txt").decode().split("\n")
    assert end.strip() == ""
    expected = "".join("".join(line.split()) + "\n" for line in lines)
    assert bytes(alphabet[symbol] for symbol in symbols.tolist()).decode() == expected


def test_protocol_of_the_papers() -> None:
    task = PennTreebank()
    assert (task.steps, task.input_size, task.output_size, task.vocabulary, task.embedding) == (150, 50, 50, 50, 200)
    assert task.has_validation
    assert task.is_data_set
    train = task.batches("train", 128)
    assert train.carries
    assert train[0].inputs.shape == train[0].targets.shape == (150, 128)
    assert train[0].inputs.dtype == torch.int64
    assert train.per_epoch == math.ceil((5_017_482 // 128 - 1) / 150) == 262
    for split, size in {"valid": 393_042, "test": 442_423}.items():
        batches = task.batches(split, 128)
        assert batches[0].inputs.shape == (150, 10)
        predicted = sum(batches[k].mask.sum() for k in range(batches.per_epoch))
        assert predicted == (size // 10 - 1) * 10


def test_window_k_plus_1_continues_window_k() -> None:
    batches = PennTreebank(bptt=30).batches("train", 20)
    for k in (0, 1, 500, batches.per_epoch - 2):
        assert batches[k + 1].inputs[0].equal(batches[k].targets[-1])


def test_memoryless_predictor_scores_the_baseline() -> None:
    """Over the training text in one stream, where all but its first character is predicted."""
    task = PennTreebank(bptt=50_000, subset=200_001)
    share = torch.bincount(task.training_symbols(), minlength=50).double() / 200_001
    batches = task.batches("train", 1)
    total = {"loss": 0.0, "bpc": 0.0}
    for k in range(batches.per_epoch):
        batch = batches[k]
        logits = share.log().clamp(min=-1e3).expand(*batch.targets.shape, 50)
        total["loss"] += float(task.loss(logits, batch)) / batches.per_epoch
        total["bpc"] += task.metrics(logits, batch)["bpc"] / batches.per_epoch
    assert total["loss"] == pytest.approx(task.memoryless_baseline, abs=1e-4)
    assert total["bpc"] == pytest.approx(task.chance, abs=1e-4)


def test_perfect_predictor() -> None:
    """Knows the text: the target at t is the input at t + 1, and after the window that of the next one."""
    task = PennTreebank()
    batches = task.batches("train", 16)
    batch, following = batches[7], batches[8]
    answer = torch.cat([batch.inputs[1:], following.inputs[:1]])
    logits = 100.0 * F.one_hot(answer, 50).double()
    assert float(task.loss(logits, batch)) < 1e-6
    score = task.metrics(logits, batch)
    assert score["accuracy"] == 1.0
    assert score["bpc"] < 1e-6


def test_samples_are_windows_of_the_training_text() -> None:
    task = PennTreebank(bptt=40, subset=5000)
    batch = task.sample(6, torch.Generator().manual_seed(0))
    text = bytes(task.training_symbols().tolist())
    for inputs, targets in zip(batch.inputs.T.tolist(), batch.targets.T.tolist(), strict=True):
        assert inputs[1:] == targets[:-1]
        assert bytes([*inputs, targets[-1]]) in text
    again, other = (task.sample(6, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert batch.inputs.equal(again.inputs)
    assert not batch.inputs.equal(other.inputs)


def test_small_runs() -> None:
    task = PennTreebank(subset=1000)
    assert len(task.training_symbols()) == 1000
    assert task.batches("train", 2).per_epoch == 4  # 499 to predict, in windows of 150
    assert task.batches("valid", 2, size=20).per_epoch == 2  # 3001 characters in 10 streams
    assert task.batches("train", 10**6)[0].inputs.shape == (1, 500)  # no more streams than pairs


def test_a_size_is_in_windows() -> None:
    """In one stream they are whole: so many windows of so many steps."""
    batches = PennTreebank(bptt=7).batches("train", 1, size=3)
    assert [batches[k].targets.shape for k in range(batches.per_epoch)] == [(7, 1)] * 3


WRONG = {
    "bptt": ({"bptt": 0}, OptionError, "bptt must be at least 1"),
    "bptt a float": ({"bptt": 1.5}, DTypeError, "bptt must be a whole number"),
    "subset": ({"subset": 150}, OptionError, "subset must be 0 or more than bptt = 150"),
    "subset negative": ({"subset": -1}, OptionError, "subset must be at least 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        make_task("ptb", **options)


def test_wrong_split() -> None:
    with pytest.raises(OptionError, match="unknown split 'dev'"):
        PennTreebank().batches("dev", 10)


def test_symbols_are_spelled_one_character_each() -> None:
    """An end of line too, by a sign of its own."""
    assert characters(torch.tensor([2, 0, 1]), b"\na_") == ["_", "↵", "a"]
