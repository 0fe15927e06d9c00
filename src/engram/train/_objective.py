"""What a run makes better: all that the loop knows of tasks, batches and states."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from engram.state import State, each, parts
from engram.tasks import Batch, Task
from engram.train._evaluate import carry_on, evaluate_split, place
from engram.train._settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Step(NamedTuple):
    """One training step, before its gradient is taken.

    loss: what is reported, with its graph. penalty: what is added to it where there is one, and not reported.
    scores: computes the metrics of the step; it is called only for steps that are logged.
    """

    loss: Tensor
    penalty: Tensor | None
    scores: Callable[[], dict[str, float]]


class Objective(Protocol):
    """What the loop calls. What step k gives is a function of the settings, the weights and ``state(k)``."""

    score_names: tuple[str, ...]
    """The scores of an evaluation, ``loss`` among them."""
    exams: tuple[str, ...]
    """The splits that a trained network is tested on."""

    def step(self, k: int) -> Step:
        """The loss of step k, k = 0, 1, ..."""

    def evaluate(self, split: str, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        """The scores of a split; ``after_batch`` may raise, to leave."""

    def state(self, k: int) -> dict[str, Tensor]:
        """What step k needs of the steps before, for a checkpoint; the same in all processes."""

    def restore(self, k: int, tensors: dict[str, Tensor]) -> None:
        """Go on with step k; a ValueError if these cannot be the tensors of :meth:`state`."""


class Supervised:
    """A network learns the answers of a task. Text runs in windows, whose state is carried on to the next window.

    Several processes share each batch by its columns, the second axis; so they share the states that are carried.

    Args:
        settings: name the task, its options and the batch.
        network: its weights, ``network.penalty()``, and ``network.carry(state)`` if it has one.
        model: the network as Fabric runs it.
        fabric: tells which process this is, and where its tensors are.
    """

    def __init__(self, settings: Settings, network: Any, model: Callable[..., Any], fabric: "Fabric") -> None:
        self.settings, self.task, self.fabric = settings, settings.task, fabric
        self.network, self.model = network, model
        self.batches = settings.batches("train")
        self.carries: dict[int, State] = {}  # the state before step k, by k; a failed step does not replace it
        self.score_names = score_names(self.task)
        self.exams = tuple(self.task.exams())

    def step(self, k: int) -> Step:
        batch = self._batch(k)
        carries = self.batches.carries
        carried = self.carries.get(k) if carries and k % self.batches.per_epoch else None
        outputs, state = self.model(batch.inputs, carried)
        if carries:
            self.carries = {k: carried, k + 1: carry_on(self.network, state)}
        found = outputs.detach()
        return Step(
            self.task.loss(outputs, batch),
            self.network.penalty(),
            lambda: self._mean_scores(self.task.metrics(found, batch)),
        )

    def evaluate(self, split: str, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        task = self.task.exams().get(split, self.task)
        batches = self.settings.batches(split, task)
        return evaluate_split(self.model, task, batches, self.fabric.device, self.network.dtype, after_batch)

    def state(self, k: int) -> dict[str, Tensor]:
        return {f"carry.{i}": self._gather(tensor) for i, tensor in enumerate(parts(self.carries.get(k)))}

    def restore(self, k: int, tensors: dict[str, Tensor]) -> None:
        if not self.batches.carries or k % self.batches.per_epoch == 0:
            return
        given = [self._own(tensors[f"carry.{i}"].to(self.fabric.device)) for i in range(len(tensors))]
        inputs = self._batch(k - 1).inputs
        with torch.no_grad():  # such states as the network leaves behind, after one step and after a window
            short, state = (carry_on(self.network, self.network(piece)[1]) for piece in (inputs[:1], inputs))
        if len(given) != len(parts(state)) or not all(map(_fits, given, parts(short), parts(state))):
            raise ValueError("the state that is carried on is not one of this network")
        rest = iter(given)
        self.carries = {k: each(lambda _: next(rest), state)}

    def _batch(self, k: int) -> Batch:
        """What of batch k is this process's."""
        batch = place(self.batches[k], self.fabric.device, self.network.dtype)
        return batch if self.fabric.world_size == 1 else Batch(*(self._own(tensor) for tensor in batch))

    def _own(self, tensor: Tensor) -> Tensor:
        """The columns of this process, of ``(..., B, ...)``, whose second axis is the batch."""
        part = tensor.shape[1] // self.fabric.world_size
        return tensor[:, self.fabric.global_rank * part : (self.fabric.global_rank + 1) * part].contiguous()

    def _gather(self, tensor: Tensor) -> Tensor:
        """The columns of all processes, of numbers of any kind."""
        if self.fabric.world_size == 1:
            return tensor
        sent = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor  # processes do not exchange booleans
        return torch.cat(list(self.fabric.all_gather(sent)), dim=1).to(tensor.dtype)

    def _mean_scores(self, scores: dict[str, float]) -> dict[str, float]:
        """Over all processes, each of which scored its columns."""
        if self.fabric.world_size == 1:
            return scores
        means = {name: torch.tensor(score, device=self.fabric.device) for name, score in scores.items()}
        return {name: float(self.fabric.all_reduce(mean)) for name, mean in means.items()}  # type: ignore[arg-type]


def _fits(given: Tensor, short: Tensor, long: Tensor) -> bool:
    """Whether a tensor is like these two, but for axes that grow with the sequence."""
    if given.dtype != long.dtype or given.dim() != long.dim():
        return False
    return all(a == c or b != c for a, b, c in zip(given.shape, short.shape, long.shape, strict=True))


def score_names(task: Task) -> tuple[str, ...]:
    """``loss`` and the names of the task's metrics, which one sequence tells."""
    with torch.random.fork_rng(devices=()):
        batch = task.sample(1, torch.Generator().manual_seed(0))
    outputs = torch.zeros(*batch.mask.shape, task.output_size)
    return ("loss", *task.metrics(outputs, batch))
