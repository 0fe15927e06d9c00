"""What every task keeps: a batch is a function of its seed and number; wrong options are refused with the rule."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from engram.errors import DTypeError, EngramError, OptionError
from engram.tasks import (
    TASKS as REGISTERED,
)
from engram.tasks import (
    Adding,
    Batch,
    ContractiveSystem,
    Copy,
    CopyingMemory,
    CopySinus,
    Denoise,
    LagCopy,
    Parity,
    Sinus,
    StartEnd,
    Task,
    TransferCopy,
    make_task,
)

TASKS: list[Task] = [
    Copy(5),
    Copy(3, 6, "at"),
    CopyingMemory(0, 8, 5),
    CopyingMemory(7, 6),
    TransferCopy(5, tests=(7,)),
    Denoise(5),
    Adding(9),
    StartEnd(30),
    StartEnd(12, 6),
    LagCopy(3),
    Sinus(),
    CopySinus(),
    Parity(),
    ContractiveSystem(length=20),
]
CLASSIFY = [task for task in TASKS if task.sample(1, torch.Generator()).targets.dtype == torch.long]
REGRESS = [task for task in TASKS if task not in CLASSIFY]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_same_seed_same_batch(task: Task) -> None:
    """And the global generator neither matters nor moves."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = task.sample(6, seeded(3))
    assert torch.get_rng_state().equal(before)
    torch.manual_seed(2)
    two, other = task.sample(6, seeded(3)), task.sample(6, seeded(4))
    assert all(a.equal(b) for a, b in zip(one, two, strict=True))
    assert not one.targets.equal(other.targets)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_batches_of_one_generator_differ(task: Task) -> None:
    generator = seeded(3)
    assert not task.sample(6, generator).targets.equal(task.sample(6, generator).targets)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_shapes_and_ranges(task: Task) -> None:
    batch = task.sample(4, seeded(0))
    assert isinstance(batch, Batch)
    assert batch.inputs.shape == (task.steps, 4, task.input_size)
    assert batch.inputs.dtype == torch.float32
    asked = task.steps if task.answer == "every" else 1
    assert batch.mask.shape == (asked, 4)
    assert batch.mask.dtype == torch.bool
    assert batch.mask.any()
    if batch.targets.dtype == torch.long:
        assert batch.targets.shape == (asked, 4)
        assert batch.targets.min() >= 0
        assert batch.targets.max() < task.output_size
    else:
        assert batch.targets.shape == (asked, 4, task.output_size)
        assert batch.targets.dtype == torch.float32
    assert 0 <= task.chance <= 1
    assert task.memoryless_baseline > 0
    assert task.metric in task.metrics(torch.randn(*batch.mask.shape, task.output_size), batch)


@pytest.mark.parametrize("task", CLASSIFY, ids=repr)
def test_loss_of_classes_trains_every_step_and_scores_the_masked(task: Task) -> None:
    batch = task.sample(4, seeded(0))
    logits = torch.zeros(*batch.targets.shape, task.output_size, requires_grad=True)
    task.loss(logits, batch).backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).min() > 0  # every step is trained
    right = 10.0 * torch.nn.functional.one_hot(batch.targets, task.output_size)
    wrong_elsewhere = torch.where(batch.mask[..., None], right, -right)
    assert task.metrics(wrong_elsewhere, batch)["accuracy"] == 1.0
    assert task.metrics(-wrong_elsewhere, batch)["accuracy"] == 0.0


@pytest.mark.parametrize("task", REGRESS, ids=repr)
def test_loss_of_values_trains_and_scores_the_masked(task: Task) -> None:
    batch = task.sample(4, seeded(0))
    outputs = (batch.targets + 1).requires_grad_()
    loss = task.loss(outputs, batch)
    loss.backward()
    assert outputs.grad is not None
    assert outputs.grad.ne(0).all(-1).equal(batch.mask)
    assert loss.item() == pytest.approx(1.0)
    assert task.metrics(outputs.detach(), batch)["mse"] == pytest.approx(1.0)
    right = torch.where(batch.mask[..., None], batch.targets, 1e6)
    best, worse = task.metrics(right, batch)[task.metric], task.metrics(-right, batch)[task.metric]
    assert best == float(task.metric != "mse")  # 1 for a share or an R^2, 0 for an error
    assert (best > worse) == (task.metric != "mse")


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_training_data_can_be_entered_anywhere(task: Task) -> None:
    """batches[7] is the same whether or not others were read before, and whoever reads."""
    batches = task.batches("train", 3, seed=1)
    assert (batches.per_epoch, batches.carries) == (0, False)
    read = [batches[k] for k in range(8)]
    again = task.batches("train", 3, seed=1)[7]
    assert same(again, read[7])
    assert not same(again, read[6])
    assert not same(again, task.batches("train", 3, seed=2)[7])


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_other_splits_are_fixed_sets(task: Task, split: str) -> None:
    """7 sequences in batches of 3: 3, 3 and 1, the same ones every time round."""
    batches = task.batches(split, 3, seed=1, size=7)
    assert batches.per_epoch == 3
    assert [batches[k].inputs.shape[1] for k in range(3)] == [3, 3, 1]
    assert same(batches[1], batches[4])
    assert same(batches[1], task.batches(split, 3, seed=1, size=7)[1])
    assert not same(batches[0], batches[1])
    assert not same(batches[0], task.batches("train", 3, seed=1)[0])
    assert not same(batches[0], task.batches({"valid": "test", "test": "valid"}[split], 3, seed=1, size=7)[0])


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_a_fixed_training_set_is_visited_once_an_epoch(task: Task) -> None:
    """Twelve sequences in batches of four: an epoch is all of them, each epoch in an order of its own."""

    def epoch(number: int, seed: int = 1) -> list[bytes]:
        batches = task.batches("train", 4, seed=seed, size=12)
        assert batches.per_epoch == 3
        return [row for k in range(3) for row in rows(batches[3 * number + k])]

    whole = rows(task.batches("train", 12, seed=1, size=12)[0])
    assert len(set(whole)) == 12  # else a sequence could be missed unseen
    assert sorted(epoch(0)) == sorted(epoch(1)) == sorted(whole)
    assert epoch(0) != epoch(1)
    assert epoch(1) == epoch(1)
    assert sorted(epoch(0, seed=2)) != sorted(whole)


def same(one: Batch, two: Batch) -> bool:
    return all(a.equal(b) for a, b in zip(one, two, strict=True))


def rows(batch: Batch) -> list[bytes]:
    """Each sequence with its targets, as something to compare and sort."""
    return [
        b"".join(part[:, row].contiguous().numpy().tobytes() for part in batch) for row in range(batch.inputs.shape[1])
    ]


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_by_name_and_back(task: Task) -> None:
    assert REGISTERED[task.name] is type(task)
    assert make_task(task.name, **task.options()) == task
    assert task.exams()["test"] is task


WRONG = {
    "delay 0": ({"delay": 0}, OptionError, "delay must be at least 1, got 0"),
    "delay a float": ({"delay": 10.0}, DTypeError, "delay must be a whole number"),
    "delay a bool": ({"delay": True}, DTypeError, "delay must be a whole number"),
    "length 0": ({"length": 0}, OptionError, "length must be at least 1, got 0"),
    "length negative": ({"length": -3}, OptionError, "length must be at least 1, got -3"),
    "layout": ({"layout": "afer"}, OptionError, "unknown layout 'afer'.*Did you mean 'after'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        Copy(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, 2.0])
@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_wrong_batch_size(task: Task, size: object) -> None:
    with pytest.raises(EngramError, match="batch_size must be"):
        task.sample(size, seeded(0))  # type: ignore[arg-type]


def test_settings_are_fixed() -> None:
    """The sizes belong to the problem, and a task does not change once made."""
    with pytest.raises(TypeError):
        Copy(5, input_size=3)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        Copy(5).delay = 3  # type: ignore[misc]


@pytest.mark.parametrize("size", [1, 5, 32, 70])
def test_the_exam_does_not_depend_on_the_batch_size(size: int) -> None:
    """Seventy sequences, in blocks of their own: the same set for every network."""
    whole = Copy(3, 2).batches("test", 70, seed=1, size=70)[0]
    cut = Copy(3, 2).batches("test", size, seed=1, size=70)
    for part, parts in zip(whole, zip(*(cut[k] for k in range(cut.per_epoch)), strict=True), strict=True):
        assert part.equal(torch.cat(parts, 1))


def test_the_losses_of_several_runs_are_those_of_the_loss() -> None:
    """A task with a loss of its own does not inherit the fast form of another loss; its own it keeps."""

    class Tripled(Copy):
        def loss(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
            return 3 * super().loss(outputs, batch)

    class Told(Tripled):
        def loss(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
            return super().loss(outputs, batch)

        def losses(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
            return torch.tensor([5.0, 7.0])

    several = [Copy(3, 2).sample(4, seeded(seed)) for seed in range(2)]
    outputs, batches = torch.randn(2, 7, 4, 9), Batch(*(torch.stack(parts) for parts in zip(*several, strict=True)))
    for task, factor in ((Copy(3, 2), 1), (Tripled(3, 2), 3)):
        found = task.losses(outputs, batches).tolist()
        assert found == pytest.approx([factor * float(Copy(3, 2).loss(outputs[k], several[k])) for k in range(2)])
    assert Told(3, 2).losses(outputs, batches).tolist() == [5.0, 7.0]
