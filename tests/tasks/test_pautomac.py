"""PAutomaC: the files' facts, strings padded and masked, and the true machine scores what was published."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engram.errors import DataError, OptionError
from engram.tasks import Batch, PAutomaC, _pautomac
from engram.tasks._data import read
from engram.tasks._pautomac import SYMBOLS, read_strings, solution, strings
from engram.tasks._symbols import entropy

pytestmark = pytest.mark.usefixtures("data_sets")
LONGEST = {1: 81, 3: 67, 5: 68, 7: 36, 9: 107, 14: 49, 24: 98, 28: 69, 29: 59, 30: 52, 31: 59, 38: 84, 42: 70, 43: 54}
LONGEST[45] = 94
MEAN = {1: 7.6, 3: 7.2, 5: 7.7, 7: 5.5, 9: 7.6, 14: 7.4, 24: 6.2, 28: 6.2, 29: 5.3, 30: 5.6, 31: 6.0, 38: 7.2, 42: 6.4}
MEAN |= {43: 4.9, 45: 7.3}


def unpadded(batch: Batch) -> list[list[int]]:
    """The strings of a batch, from its targets."""
    return [column[mask][:-1].tolist() for column, mask in zip(batch.targets.T, batch.mask.T, strict=True)]


def test_read_strings() -> None:
    assert read_strings(b"3 2\r\n3 0 1 1 \r\n0 \r\n1 0\r\n") == (2, [[0, 1, 1], [], [0]])


@pytest.mark.parametrize("content", [b"2 2\r\n1 0\r\n", b"1 2\r\n2 0\r\n"])
def test_read_strings_refuses_what_does_not_add_up(content: bytes) -> None:
    with pytest.raises(DataError, match="strings, each after its length"):
        read_strings(content)


@pytest.mark.usefixtures("real_data")
def test_the_published_files_are_what_their_readme_says() -> None:
    found = {problem: read_strings(read(f"pautomac/{problem}.pautomac.train")) for problem in SYMBOLS}
    assert {problem: alphabet for problem, (alphabet, _) in found.items()} == SYMBOLS
    assert {len(train) for _, train in found.values()} == {20_000}
    assert {problem: max(map(len, train)) for problem, (_, train) in found.items()} == LONGEST
    mean = {problem: round(sum(map(len, train)) / 20_000, 1) for problem, (_, train) in found.items()}
    assert mean == MEAN
    for alphabet, train in found.values():
        assert {symbol for string in train for symbol in string} <= set(range(alphabet))


@pytest.mark.parametrize("problem", SYMBOLS)
def test_solution(problem: int) -> None:
    test, probabilities = solution(problem)
    assert len(test) == len(probabilities) == 1000
    assert probabilities.dtype == np.float64
    assert probabilities.min() > 0
    assert probabilities.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("problem", [7, 24, 30, 45])
def test_the_true_machine_gives_the_published_probabilities(problem: int) -> None:
    """P(s) = I A(s1) ... A(sn) F with A(a)[q, r] = (1 - F[q]) S[q, a] T[q, a, r], scaled over the test strings."""
    sections: dict[str, dict[tuple[int, ...], float]] = {}
    for line in read(f"pautomac/{problem}.pautomac_model.txt").decode().splitlines():
        if line[:1] in "IFST":
            entries = sections.setdefault(line[0], {})
        else:
            key, value = line.strip().strip("(").split(")")
            entries[tuple(map(int, key.split(",")))] = float(value)
    states = 1 + max(max(key[0], key[-1]) for key in sections["T"])
    shapes = {"I": (states,), "F": (states,), "S": (states, SYMBOLS[problem])}
    shapes["T"] = (states, SYMBOLS[problem], states)
    initial, stop, symbol, move = (np.zeros(shapes[name]) for name in "IFST")
    for array, name in zip((initial, stop, symbol, move), "IFST", strict=True):
        for key, value in sections[name].items():
            array[key] = value
    step = ((1 - stop)[:, None] * symbol)[..., None] * move
    test, published = solution(problem)
    found = np.empty(1000)
    for k, string in enumerate(test):
        state = initial
        for s in string:
            state = state @ step[:, s]
        found[k] = state @ stop
    np.testing.assert_allclose(found / found.sum(), published, rtol=1e-9)


def test_a_batch_by_hand() -> None:
    """Boundary first in, boundary last out; shorter strings are filled up and masked."""
    task = PAutomaC(24)
    batch = task.batches("test", 40)[1]
    expected = solution(24)[0][40:80]
    longest = max(map(len, expected))
    assert batch.inputs.shape == batch.targets.shape == batch.mask.shape == (longest + 1, 40)
    assert batch.inputs.dtype == torch.int64
    assert task.vocabulary == task.input_size == task.output_size == 6
    for column, string in enumerate(expected):
        filling = [5] * (longest - len(string))
        assert batch.inputs[:, column].tolist() == [5, *string, *filling]
        assert batch.targets[:, column].tolist() == [*string, 5, *filling]
        assert batch.mask[:, column].tolist() == [True] * (len(string) + 1) + [False] * len(filling)


def test_splits() -> None:
    """18 000, 2 000 and 1 000, in the order of the files but for training, where an epoch shows each once."""
    task = PAutomaC(7)
    whole = read_strings(read("pautomac/7.pautomac.train"))[1]
    valid, test = task.batches("valid", 300), task.batches("test", 300)
    assert [s for k in range(valid.per_epoch) for s in unpadded(valid[k])] == whole[18_000:]
    assert [s for k in range(test.per_epoch) for s in unpadded(test[k])] == solution(7)[0]
    train = task.batches("train", 600)
    assert train.per_epoch == 30
    assert sorted(s for k in range(30) for s in unpadded(train[k])) == sorted(whole[:18_000])
    assert task.steps == max(len(s) - 1 for part in ("train", "test") for s in strings(7, part))


def test_memoryless_predictor_scores_the_baseline() -> None:
    """Over the whole training split exactly; the filling does not count."""
    task = PAutomaC(7)
    batch = task.batches("train", 18_000)[0]
    share = torch.zeros(len(batch.targets), task.output_size)
    for t, (row, alive) in enumerate(zip(batch.targets, batch.mask, strict=True)):
        share[t] = torch.bincount(row[alive], minlength=task.output_size) / alive.sum()
    logits = share.clamp(min=1e-30).log()[:, None].expand(*batch.targets.shape, task.output_size)
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-5)
    assert task.metrics(logits, batch)["bits"] == pytest.approx(task.chance, abs=1e-5)
    assert task.memoryless_baseline < entropy(task.training_symbols()) < math.log(task.output_size)
    assert task.metric == "bits"


def test_perfect_predictor() -> None:
    """The next input, and the boundary after the last symbol; what is said of the filling is not scored."""
    task = PAutomaC()
    batch = task.batches("valid", 64)[0]
    answer = torch.full_like(batch.targets, task.vocabulary - 1)
    answer[:-1] = batch.inputs[1:]
    answer[~batch.mask] = 0
    logits = 100.0 * F.one_hot(answer, task.output_size).double()
    assert float(task.loss(logits, batch)) < 1e-6
    assert task.metrics(logits, batch) == {"bits": pytest.approx(0, abs=1e-6), "accuracy": 1.0}


def test_same_seed_same_batch() -> None:
    task = PAutomaC(3)
    one, two, other = (task.batches("train", 32, seed) for seed in (1, 1, 2))
    for k in (1000, 0, 561):
        assert all(a.equal(b) for a, b in zip(one[k], two[k], strict=True))
        assert unpadded(one[k]) != unpadded(other[k])
    samples = [unpadded(task.sample(9, torch.Generator().manual_seed(seed))) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    assert task.batches("train", 32, size=100).per_epoch == 3


def test_the_error_lists_the_problems() -> None:
    with pytest.raises(OptionError, match=r"unknown problem 2: expected one of 1, 3, 5, 7, 9, 14, .*45"):
        PAutomaC(2)


@pytest.mark.parametrize(("train", "test"), [(5, 9), (9, 5)])
def test_the_steps_are_those_of_the_longest_string(train: int, test: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both boundaries a string of 9 is 8 predictions, in whichever file it is."""
    lengths = {"train": [3, train], "test": [test, 2]}
    monkeypatch.setattr(_pautomac, "strings", lambda problem, part: [torch.zeros(n) for n in lengths[part]])
    assert PAutomaC().steps == 8
