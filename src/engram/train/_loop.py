"""The training loop: its state is a function of the settings and the number of steps taken."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from engram.errors import DivergedError, check_between, check_number, check_size
from engram.tasks import seed_of
from engram.train._checkpoint import Checkpoint, pack, under, unpack
from engram.train._network import make_network
from engram.train._objective import Objective, Supervised
from engram.train._optimizer import Optimizers
from engram.train._schedule import Schedule
from engram.train._scores import Score
from engram.train._settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Loop:
    """An objective in training. :meth:`state` at step k, restored anywhere, gives the same later steps bit for bit.

    All random numbers of step k (dropout) are functions of the seed and k, as is the batch, so that nothing else needs
    to be kept than weights, optimisers, what the objective carries on, and a few counters.

    Args:
        settings: of the run.
        fabric: Lightning Fabric with their device, precision and processes: ``make_fabric(settings)``.
        objective: makes the objective, from the settings, the network, the network as Fabric runs it, and Fabric;
            default: :class:`Supervised`.
    """

    def __init__(self, settings: Settings, fabric: "Fabric", objective: Callable[..., Objective] | None = None) -> None:
        self.settings, self.fabric = settings.resolved(), fabric
        budget = self.settings.budget
        torch.manual_seed(seed_of(settings.seed, "weights"))
        self.network = make_network(self.settings)
        self.optimizers = Optimizers(self.network, self.settings.optimiser)
        self.schedule = Schedule(self.settings.optimiser)
        model, *_ = fabric.setup(self.network, *self.optimizers.all)
        self.objective = (objective or Supervised)(self.settings, self.network, model, fabric)
        self.score = Score(budget.stop_by, self.objective.score_names)
        self.total, self.every = budget.steps or 0, budget.validate_every or 0
        self.stop_at = budget.stop_at
        self.step = self.validated = 0
        self.best: dict[str, Any] = {"loss": math.inf, self.score.name: self.score.worst, "step": 0}
        self.best_weights: dict[str, Tensor] = {}
        self.stale = 0  # validations without a better score
        self.seconds = 0.0

    @property
    def finished(self) -> bool:
        patience = self.settings.budget.patience
        return self.step >= self.total or bool(patience and self.stale >= patience) or self.reached

    @property
    def reached(self) -> bool:
        """Whether a validation was as good as ``stop_at``."""
        return bool(self.best_weights) and self.stop_at is not None and self.score.reaches(self.best, self.stop_at)

    @property
    def validation_due(self) -> bool:
        ends = self.step % self.every == 0 or self.step >= self.total if self.every else False
        return ends and self.validated < self.step

    def train_step(self) -> tuple[float, Callable[[], dict[str, float]]]:
        """One update: its loss, and its scores when called. A loss or gradient that is not finite changes nothing and
        raises."""
        started = time.perf_counter()
        self._seed(seed_of(self.settings.seed, "noise", self.step, self.fabric.global_rank))
        loss, penalty, scores = self.objective.step(self.step)
        self.fabric.backward(loss if penalty is None else loss + penalty)
        value = float(self._mean(loss.detach()))
        self._check("the loss", value)
        self._clip()
        self.optimizers.scale(self.schedule.factor(self.step))
        for optimizer in self.optimizers.all:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seconds += time.perf_counter() - started
        return value, scores

    def _seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type != "cpu":
            torch.manual_seed(seed)  # of all devices; it takes half a millisecond

    def _clip(self) -> None:
        """Clip the gradient of all but the orthogonal parameters; check that all gradients are finite."""
        clip = self.settings.optimiser.clip
        for parameters in filter(None, (self.optimizers.clipped, self.optimizers.orthogonal)):
            norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            self._check("the gradient", float(norm))
            if clip and parameters is self.optimizers.clipped:
                nn.utils.clip_grads_with_norm_(parameters, clip, norm)

    def _check(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DivergedError(f"{what} is {value} at step {self.step + 1}")

    def _mean(self, loss: Tensor) -> Tensor:
        """Over all processes, which so agree on whether to stop."""
        return loss if self.fabric.world_size == 1 else self.fabric.all_reduce(loss)  # type: ignore[return-value]

    def evaluate(self, split: str, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        """Loss and metrics of the network as it is."""
        return self.objective.evaluate(split, after_batch)

    def validate(self, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        """Scores of the validation split; keeps the best weights, lowers the rate, counts towards the patience."""
        started = time.perf_counter()
        scores = self.evaluate("valid", after_batch)
        for name in ("loss", self.score.name):
            if not math.isfinite(scores[name]):
                raise DivergedError(f"the validation {name} is {scores[name]} after step {self.step}")
        self.validated = self.step
        better = self.score.better(scores, self.best)
        if better:
            self.best = {"step": self.step, **scores}
            self.best_weights = {name: t.detach().clone() for name, t in self.network.state_dict().items()}
        self.stale = 0 if better else self.stale + 1
        self.schedule.validated(better)
        self.seconds += time.perf_counter() - started
        return scores

    def state(self) -> Checkpoint:
        """Everything that the next steps depend on, copied."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"best.{name}": t for name, t in self.best_weights.items()}
        tensors |= {f"objective.{name}": t for name, t in self.objective.state(self.step).items()}
        values = {name: getattr(self, name) for name in ("step", "validated", "best", "stale", "seconds")}
        values |= self.schedule.state()
        values["optimizers"] = [
            pack(f"optimizer{k}", o.state_dict(), tensors) for k, o in enumerate(self.optimizers.all)
        ]
        kept = {name: t if name.startswith("best.") else t.detach().clone() for name, t in tensors.items()}
        return Checkpoint(kept, values)  # the best weights are a copy already, and never change

    def restore(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint."""
        tensors, values = checkpoint
        self.best_weights = under("best.", tensors)
        self.use_best_weights()  # they fit, or this raises
        self.network.load_state_dict(under("network.", tensors))
        self.optimizers.restore([unpack(packed, tensors) for packed in values["optimizers"]])
        self.schedule.restore(values)
        for name in ("step", "validated", "stale"):
            setattr(self, name, check_size(name, values[name], least=0))
        self.seconds = check_between("seconds", values["seconds"], -1, math.inf)
        self.best = {name: check_number(f"best {name}", value) for name, value in values["best"].items()}
        for name in ("loss", self.score.name):
            self.best[name]  # must be there
        if check_size("best step", self.best["step"], least=0) > self.step or self.validated > self.step:
            raise ValueError(f"it is of step {self.step}, and tells of a later validation")
        self.objective.restore(self.step, under("objective.", tensors))

    def use_best_weights(self) -> None:
        """The weights of the best validation, if there was one."""
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
