"""What every task keeps: the same seed gives the same batch; wrong options are refused with the rule."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from engram.errors import DTypeError, EngramError, OptionError
from engram.tasks import Batch, Copy, Task

TASKS: list[Task] = [Copy(5), Copy(3, 2, "at")]


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
    steps, size, features = batch.inputs.shape
    assert (size, features) == (4, task.input_size)
    assert batch.targets.shape == batch.mask.shape == (steps, 4)
    assert batch.mask.dtype == torch.bool
    assert batch.targets.min() >= 0
    assert batch.targets.max() < task.output_size
    assert 0 < task.chance < 1
    assert task.memoryless_baseline > 0


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_loss_is_differentiable_and_scores_only_masked_steps(task: Task) -> None:
    batch = task.sample(4, seeded(0))
    logits = torch.zeros(*batch.targets.shape, task.output_size, requires_grad=True)
    task.loss(logits, batch).backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).min() > 0  # every step is trained
    right = 10.0 * torch.nn.functional.one_hot(batch.targets, task.output_size)
    wrong_elsewhere = torch.where(batch.mask[..., None], right, -right)
    assert task.metrics(wrong_elsewhere, batch)["accuracy"] == 1.0
    assert task.metrics(-wrong_elsewhere, batch)["accuracy"] == 0.0


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
def test_wrong_batch_size(size: object) -> None:
    with pytest.raises(EngramError, match="batch_size must be"):
        Copy(5).sample(size, seeded(0))  # type: ignore[arg-type]


def test_settings_are_fixed() -> None:
    """The sizes belong to the problem, and a task does not change once made."""
    with pytest.raises(TypeError):
        Copy(5, input_size=3)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        Copy(5).delay = 3  # type: ignore[misc]
