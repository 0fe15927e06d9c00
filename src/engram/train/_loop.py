"""The training loop: its state is a function of the settings and the number of steps taken."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from engram.errors import DivergedError, check_between, check_number, check_size
from engram.state import State
from engram.tasks import Batch, Batches, seed_of
from engram.train._checkpoint import Checkpoint, pack, under, unpack
from engram.train._evaluate import evaluate_split, place
from engram.train._network import make_network
from engram.train._optimizer import Optimizers
from engram.train._settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Loop:
    """A network in training. :meth:`state` at step k, restored anywhere, goes on bit for bit.

    The batch of step k and all random numbers of step k (dropout) are functions of the seed and k, so that nothing
    else needs to be kept than weights, optimisers, the state carried between windows of text, and a few counters.
    """

    def __init__(self, settings: Settings, fabric: "Fabric") -> None:
        self.settings, self.task, self.fabric = settings, settings.task, fabric
        torch.manual_seed(seed_of(settings.seed, "weights"))
        self.network = make_network(settings)
        self.optimizers = Optimizers(self.network, settings)
        self.model, *_ = fabric.setup(self.network, *self.optimizers.all)
        self.train_batches = settings.batches("train")
        self.total, self.every = self._lengths()
        self.step = self.validated = 0
        self.best: dict[str, Any] = {"loss": math.inf, "step": 0}
        self.best_weights: dict[str, Tensor] = {}
        self.stale = self.stale_rate = 0  # validations without a better loss: in all, and since the rate last fell
        self.seconds = 0.0
        self.carry: State = None

    def _lengths(self) -> tuple[int, int]:
        """Steps in all, and between validations."""
        settings, epoch = self.settings, self.train_batches.per_epoch
        total = settings.steps if settings.steps is not None else (settings.epochs or 1) * (epoch or 1000)
        every = (epoch or 100) if settings.validate_every is None else settings.validate_every
        return total, every if self.task.has_validation else 0

    @property
    def finished(self) -> bool:
        return self.step >= self.total or bool(self.settings.patience and self.stale >= self.settings.patience)

    @property
    def validation_due(self) -> bool:
        ends = self.step % self.every == 0 or self.step >= self.total if self.every else False
        return ends and self.validated < self.step

    def train_step(self) -> tuple[float, Tensor, Batch]:
        """One update: loss, outputs and batch. A loss or gradient that is not finite changes nothing and raises."""
        begin = time.perf_counter()
        self._seed(seed_of(self.settings.seed, "noise", self.step, self.fabric.global_rank))
        batch = self._share(place(self.train_batches[self.step], self.fabric.device, self.network.dtype))
        epoch = self.train_batches.per_epoch
        carried = self.train_batches.carries and self.step % epoch != 0
        outputs, state = self.model(batch.inputs, self.carry if carried else None)
        loss = self.task.loss(outputs, batch)
        penalty = self.network.penalty()
        self.fabric.backward(loss if penalty is None else loss + penalty)
        value = float(self._mean(loss.detach()))
        self._check("the loss", value)
        self._clip()
        for optimizer in self.optimizers.all:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if self.train_batches.carries:
            self.carry = self.network.carry(state)
        self.step += 1
        self.seconds += time.perf_counter() - begin
        return value, outputs.detach(), batch

    def _seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type != "cpu":
            torch.manual_seed(seed)  # of all devices; it takes half a millisecond

    def _clip(self) -> None:
        """Bound the gradient of the plain parameters; see that all of it is finite."""
        for parameters in filter(None, (self.optimizers.plain, self.optimizers.turning)):
            norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            self._check("the gradient", float(norm))
            if self.settings.clip and parameters is self.optimizers.plain:
                nn.utils.clip_grads_with_norm_(parameters, self.settings.clip, norm)

    def _check(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DivergedError(f"{what} is {value} at step {self.step + 1}")

    def _mean(self, loss: Tensor) -> Tensor:
        """Over all processes, which so agree on whether to stop."""
        return loss if self.fabric.world_size == 1 else self.fabric.all_reduce(loss)  # type: ignore[return-value]

    def mean_scores(self, scores: dict[str, float]) -> dict[str, float]:
        """Over all processes, each of which scored its columns."""
        if self.fabric.world_size == 1:
            return scores
        return {
            name: float(self._mean(torch.tensor(score, device=self.fabric.device))) for name, score in scores.items()
        }

    def _share(self, batch: Batch) -> Batch:
        """What of a batch is this process's."""
        if self.fabric.world_size == 1:
            return batch
        return Batch(*(self._own(tensor) for tensor in batch))

    def evaluate(self, batches: Batches, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        """Loss and metrics of the network as it is."""
        return evaluate_split(self.model, self.task, batches, self.fabric.device, self.network.dtype, after_batch)

    def validate(self, after_batch: Callable[[int], None] = lambda k: None) -> dict[str, float]:
        """Scores of the validation split; keeps the best weights, lowers the rate, counts towards the patience."""
        settings, begin = self.settings, time.perf_counter()
        scores = self.evaluate(settings.batches("valid"), after_batch)
        if not math.isfinite(scores["loss"]):
            raise DivergedError(f"the validation loss is {scores['loss']} after step {self.step}")
        self.validated = self.step
        if scores["loss"] < self.best["loss"]:
            self.best = {"step": self.step, **scores}
            self.best_weights = {name: t.detach().clone() for name, t in self.network.state_dict().items()}
            self.stale = self.stale_rate = 0
        else:
            self.stale, self.stale_rate = self.stale + 1, self.stale_rate + 1
        if settings.plateau and self.stale_rate >= settings.plateau:
            self.optimizers.slow_down(settings.plateau_factor)
            self.stale_rate = 0
        self.seconds += time.perf_counter() - begin
        return scores

    def state(self) -> Checkpoint:
        """Everything that the next steps depend on, copied."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"best.{name}": t for name, t in self.best_weights.items()}
        carry = [] if self.carry is None else [self.carry] if isinstance(self.carry, Tensor) else list(self.carry)
        tensors |= {f"carry.{k}": self._gather(s) for k, s in enumerate(carry)}
        values = {
            name: getattr(self, name) for name in ("step", "validated", "best", "stale", "stale_rate", "seconds")
        } | {"optimizers": [pack(f"optimizer{k}", o.state_dict(), tensors) for k, o in enumerate(self.optimizers.all)]}
        kept = {name: t if name.startswith("best.") else t.detach().clone() for name, t in tensors.items()}
        return Checkpoint(kept, values)  # the best weights are a copy already, and never change

    def _gather(self, state: Tensor) -> Tensor:
        """The state of all columns, those of the other processes too."""
        if self.fabric.world_size == 1:
            return state
        return torch.cat(list(self.fabric.all_gather(state)), dim=1)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        tensors, values = checkpoint
        self.best_weights = under("best.", tensors)
        self.use_best_weights()  # they fit, or this raises
        self.network.load_state_dict(under("network.", tensors))
        self.optimizers.restore([unpack(packed, tensors) for packed in values["optimizers"]])
        for name in ("step", "validated", "stale", "stale_rate"):
            setattr(self, name, check_size(name, values[name], least=0))
        self.seconds = check_between("seconds", values["seconds"], -1, math.inf)
        self.best = {name: check_number(f"best {name}", value) for name, value in values["best"].items()}
        self.best["loss"]  # must be there
        if check_size("best step", self.best["step"], least=0) > self.step or self.validated > self.step:
            raise ValueError(f"it is of step {self.step}, and tells of a later validation")
        carry = under("carry.", tensors)
        if carry and self.train_batches.carries:
            parts = [self._own(carry[str(k)].to(self.fabric.device)) for k in range(len(carry))]
            self._check_carry(parts)
            self.carry = parts[0] if len(parts) == 1 else tuple(parts)

    def _check_carry(self, parts: list[Tensor]) -> None:
        """Whether the network could have left such a state behind."""
        batch = self._share(place(self.train_batches[0], self.fabric.device, self.network.dtype))
        with torch.no_grad():
            state = self.network(batch.inputs[:1])[1]
        own = [state] if isinstance(state, Tensor) else list(state or ())
        if [(t.shape, t.dtype) for t in own] != [(t.shape, t.dtype) for t in parts]:
            raise ValueError("the state that is carried on is not one of this network")

    def _own(self, tensor: Tensor) -> Tensor:
        """The columns of this process, of ``(..., B, ...)``, whose second axis is the batch."""
        part = tensor.shape[1] // self.fabric.world_size
        return tensor[:, self.fabric.global_rank * part : (self.fabric.global_rank + 1) * part].contiguous()

    def use_best_weights(self) -> None:
        """The weights of the best validation, if there was one."""
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
