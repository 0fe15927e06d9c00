"""The objective: what it gives at a step, what it carries on, and that the loop needs nothing else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from engram.errors import DivergedError
from engram.tasks import Copy, PennTreebank
from engram.train import Step, Supervised, load_network, make_fabric, make_network, resume, train
from engram.train import _loop as loop_module
from engram.train._loop import Loop
from engram.train._objective import _fits

pytestmark = pytest.mark.usefixtures("data_sets")
TEXT = PennTreebank(bptt=5, subset=200)


class Memory(NamedTuple):
    """A state of three kinds of numbers."""

    h: Tensor
    age: Tensor
    seen: Tensor


class Counting(nn.Module):
    """Counts its steps and marks the symbols it has seen, beside a plain state."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, 4)
        self.head = nn.Linear(4, size)
        self.size = size

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype

    def penalty(self) -> None:
        return None

    def forward(self, inputs: Tensor, state: Memory | None = None) -> tuple[Tensor, Memory]:
        batch = inputs.shape[1]
        if state is None:
            seen = torch.zeros(1, batch, self.size, dtype=torch.bool)
            state = Memory(torch.zeros(1, batch, 4), torch.zeros(1, batch, dtype=torch.int64), seen)
        h, outputs = state.h[0], []
        for x in inputs:
            h = torch.tanh(self.embedding(x) + h + 0.01 * state.age[0, :, None])
            outputs.append(self.head(h))
        seen = state.seen[0].scatter(1, inputs.T, True)
        return torch.stack(outputs), Memory(h[None], state.age + len(inputs), seen[None])


class Emptied(Counting):
    """Says itself what goes on: of this one, the age starts again."""

    def carry(self, state: Memory) -> Memory:
        return Memory(state.h.detach(), torch.zeros_like(state.age), state.seen)


def fabric_of(rank: int, world: int, others: list[Tensor] | None = None) -> Any:
    """A process of several; what it gathers is its own part and what the others have."""

    def gather(tensor: Tensor) -> Tensor:
        assert tensor.dtype != torch.bool  # gloo and others do not send them
        return torch.stack([tensor, *(each.to(tensor.dtype) for each in others or [])])

    return SimpleNamespace(device=torch.device("cpu"), world_size=world, global_rank=rank, all_gather=gather)


def supervised(small: Any, kind: type[Counting] = Counting, rank: int = 0, world: int = 1) -> Supervised:
    torch.manual_seed(0)
    network = kind(TEXT.vocabulary)
    return Supervised(small(TEXT, "lstm", batch=4), network, network, fabric_of(rank, world))


def test_a_step(small: Any) -> None:
    """The loss of the batch with its graph, the metrics only when they are asked for."""
    settings = small(Copy(3, 2), "nnrnn", options={"gamma_penalty": 0.5})
    network = make_network(settings)
    asked: list[int] = []
    objective = Supervised(settings, network, network, fabric_of(0, 1))
    real = settings.task.metrics
    object.__setattr__(settings.task, "metrics", lambda *args: asked.append(1) or real(*args))
    step = objective.step(2)
    batch = settings.batches("train")[2]
    outputs = network(batch.inputs)[0]
    assert step.loss.equal(settings.task.loss(outputs, batch))
    assert step.loss.requires_grad
    assert step.penalty is not None
    assert asked == []
    assert step.scores() == real(outputs, batch)
    assert asked == [1]


def test_a_state_of_several_kinds_is_carried(small: Any) -> None:
    """Detached and otherwise as it was; at the start of an epoch there is none."""
    objective = supervised(small)
    epoch = objective.batches.per_epoch
    assert epoch > 2
    for k in range(epoch):
        objective.step(k)
    steps = sum(len(objective.batches[k].inputs) for k in range(epoch))
    assert objective.carries[epoch].age.tolist() == [[steps] * 4]
    assert not objective.carries[epoch].h.requires_grad
    objective.step(epoch)
    assert objective.carries[epoch + 1].age.tolist() == [[5] * 4]
    assert len(objective.carries) == 2  # that of the step, should it fail, and that of the next


def test_the_network_may_say_what_is_carried(small: Any) -> None:
    objective = supervised(small, Emptied)
    objective.step(0)
    objective.step(1)
    assert objective.carries[2].age.tolist() == [[0] * 4]
    assert objective.carries[2].seen.any()


def test_an_evaluation_carries_what_training_does(small: Any) -> None:
    """A memory of all past states is emptied at each window there too, as the network has learned to live with."""
    settings = small(TEXT, "memrnn", batch=4, embedding=4)
    loop = Loop(settings, make_fabric(settings))
    seen: list[int] = []
    loop.network.core.register_forward_hook(lambda module, args, out: seen.append(out[1].memory.shape[2]))
    loop.evaluate("train")
    assert len(seen) > 3
    assert max(seen) == 5


def test_a_carried_state_in_a_checkpoint(small: Any) -> None:
    """Integers and booleans too: what goes on is bit for bit what would have gone on."""
    one, two = supervised(small), supervised(small)
    for k in range(3):
        one.step(k)
    tensors = {name: tensor.clone() for name, tensor in one.state(3).items()}
    assert [tensor.dtype for tensor in tensors.values()] == [torch.float32, torch.int64, torch.bool]
    two.restore(3, tensors)
    assert isinstance(two.carries[3], Memory)
    assert one.step(3).loss.equal(two.step(3).loss)
    assert not supervised(small).step(3).loss.equal(two.step(3).loss)  # else nothing would be tested


@pytest.mark.parametrize("change", ["dtype", "shape", "missing"])
def test_a_state_of_another_network_is_refused(change: str, small: Any) -> None:
    objective = supervised(small)
    objective.step(0)
    tensors = objective.state(1)
    if change == "dtype":
        tensors["carry.1"] = tensors["carry.1"].float()
    elif change == "shape":
        tensors["carry.0"] = tensors["carry.0"][..., :3]
    else:
        del tensors["carry.2"]
    with pytest.raises(ValueError, match="the state that is carried on is not one of this network"):
        objective.restore(1, tensors)


def test_processes_share_batches_and_states(small: Any) -> None:
    """Each has its columns of both, and together they have the whole, of numbers of every kind."""
    whole = supervised(small)
    parts = [supervised(small, rank=rank, world=2) for rank in (0, 1)]
    losses = [objective.step(0).loss for objective in parts]
    torch.testing.assert_close(whole.step(0).loss, sum(losses) / 2)
    own = [list(objective.carries[1]) for objective in parts]
    tensors = whole.state(1)
    for i, tensor in enumerate(tensors.values()):
        first, second = own[0][i], own[1][i]
        assert torch.cat([first, second], 1).equal(tensor)
        parts[0].fabric = fabric_of(0, 2, [second])
        gathered = parts[0]._gather(first)
        assert gathered.equal(tensor)
        assert gathered.dtype == tensor.dtype
    for rank, objective in enumerate(parts):
        again = supervised(small, rank=rank, world=2)
        again.restore(1, tensors)
        assert again.step(1).loss.equal(objective.step(1).loss)


def test_a_step_that_fails_leaves_the_carried_state(small: Any) -> None:
    """It can be taken again from what was there before."""
    settings = small(TEXT, "lstm", embedding=4)
    loop, other = (Loop(settings, make_fabric(settings)) for _ in range(2))
    for each in (loop, other):
        each.train_step()
        each.train_step()
    before = loop.state()
    with torch.no_grad():
        kept = loop.network.head.bias.clone()
        loop.network.head.bias.fill_(float("nan"))
    with pytest.raises(DivergedError):
        loop.train_step()
    with torch.no_grad():
        loop.network.head.bias.copy_(kept)
    after = loop.state()
    assert before.tensors.keys() == after.tensors.keys()
    assert any(name.startswith("objective.carry.") for name in before.tensors)
    assert all(before.tensors[name].equal(after.tensors[name]) for name in before.tensors)
    loop.optimizers.all[0].zero_grad()
    assert loop.train_step()[0] == other.train_step()[0]


class Pull:
    """An objective without a task: the read-out is pulled to a number that its own state counts up."""

    score_names, exams = ("loss", "accuracy"), ("test", "harder")

    def __init__(self, settings: Any, network: Any, model: Any, fabric: Any) -> None:
        self.weight, self.count = network.head.weight, torch.zeros((), dtype=torch.int64)

    def step(self, k: int) -> Step:
        loss = (self.weight - self.count).square().mean()
        self.count = self.count + 1
        return Step(loss, None, lambda: {"accuracy": 0.5})

    def evaluate(self, split: str, after_batch: Any = None) -> dict[str, float]:
        return {"loss": float(self.weight.detach().square().mean()), "accuracy": float(len(split))}

    def state(self, k: int) -> dict[str, Tensor]:
        return {"count": self.count}

    def restore(self, k: int, tensors: dict[str, Tensor]) -> None:
        self.count = tensors["count"]


def test_the_loop_needs_nothing_but_an_objective(
    small: Any, tmp_path: Path, metrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other trains, validates, is tested on its own exams, saved, and goes on bit for bit."""
    monkeypatch.setattr(loop_module, "Supervised", Pull)
    whole = train(small(steps=8, validate_every=4), tmp_path, "whole")
    assert whole.facts["results"].keys() == {"test", "harder"}
    assert [line["accuracy"] for line in metrics(whole) if line["split"] == "harder"] == [6.0]
    part = train(small(steps=4, validate_every=4), tmp_path, "part")
    part = resume(part.folder, steps=8)
    ours, others = (load_network(run.folder, best=False).state_dict() for run in (whole, part))
    assert all(ours[name].equal(others[name]) for name in ours)
    assert [line for line in metrics(part) if line["split"] == "train"] == [
        line for line in metrics(whole) if line["split"] == "train"
    ]


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [
        ((7, 3), torch.float32, True),
        ((1, 3), torch.float32, True),
        ((5, 2), torch.float32, False),
        ((5, 3, 1), torch.float32, False),
        ((5, 3), torch.float64, False),
    ],
)
def test_a_state_that_grows_with_the_sequence(shape: tuple[int, ...], dtype: torch.dtype, fits: bool) -> None:
    """After one step it has (1, 3) numbers and after five (5, 3): its first axis may be of any length."""
    assert _fits(torch.zeros(shape, dtype=dtype), torch.zeros(1, 3), torch.zeros(5, 3)) is fits
