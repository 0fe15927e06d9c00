"""The transfer copying problem: one delay to train on, others to be tested on."""

import pytest
import torch

from engram.errors import DTypeError, OptionError
from engram.tasks import Copy, TransferCopy, make_task


def test_exams_of_the_paper() -> None:
    """Trained at 100, tested at 100 and at the four delays of Table 1."""
    task = TransferCopy()
    exams = task.exams()
    assert list(exams) == ["test", "test-200", "test-400", "test-2000", "test-5000"]
    assert exams["test"] is task
    assert [exam.steps for exam in exams.values()] == [120, 220, 420, 2020, 5020]
    assert all(type(exam) is Copy for exam in list(exams.values())[1:])  # an exam has no exams of its own


def test_exams_keep_length_and_layout() -> None:
    exams = TransferCopy(5, 3, "at", tests=(7,)).exams()
    assert exams["test-7"] == Copy(7, 3, "at")
    batch = exams["test-7"].batches("test-7", 2, size=2)[0]
    assert batch.inputs.argmax(-1)[:, 0].tolist().index(9) == 3 + 7  # "at": the cue where the answer starts


def test_one_network_can_take_all_exams() -> None:
    """The sizes and the question are the same; only the wait differs."""
    for exam in TransferCopy(tests=(150,)).exams().values():
        assert (exam.input_size, exam.output_size, exam.chance) == (10, 9, 1 / 8)


def test_training_is_plain_copying() -> None:
    ours = TransferCopy(20).sample(4, torch.Generator().manual_seed(0))
    copy = Copy(20).sample(4, torch.Generator().manual_seed(0))
    assert all(a.equal(b) for a, b in zip(ours, copy, strict=True))
    assert TransferCopy(20).memoryless_baseline == Copy(20).memoryless_baseline


def test_exams_are_fixed_and_differ() -> None:
    exam = TransferCopy(5, 3, tests=(7,)).exams()["test-7"]
    assert exam.batches("test-7", 4, seed=1, size=8)[1].targets.equal(
        exam.batches("test-7", 4, seed=1, size=8)[1].targets
    )
    assert not exam.batches("test-7", 4, seed=1, size=8)[1].targets.equal(
        exam.batches("test", 4, seed=1, size=8)[1].targets
    )


def test_settings_come_back() -> None:
    """Also from a file, where a tuple is a list; and the task can be a key."""
    task = TransferCopy(20, tests=(30, 40))
    again = make_task("transfer-copy", **{**task.options(), "tests": [30, 40]})
    assert again == task
    assert hash(again) == hash(task)
    assert TransferCopy(tests=()).exams() == {"test": TransferCopy(tests=())}


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="each of tests must be at least 1, got 0"):
        TransferCopy(tests=(200, 0))
    with pytest.raises(DTypeError, match="each of tests must be a whole number"):
        TransferCopy(tests=(200.0,))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="delay must be at least 1, got 0"):
        TransferCopy(0)
