"""Several runs that take their steps as one: one network, called once for all of them by ``torch.func.vmap``."""

import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from engram.errors import DivergedError
from engram.maps import Map, mapped_weights, together
from engram.tasks import Batch
from engram.train._evaluate import place
from engram.train._loop import Loop
from engram.train._stacked import Stacked
from engram.train._stacked_optimizer import StackedOptimizer


class Taken(NamedTuple):
    """What a step gave a member, as :meth:`Loop.train_step`; or what was wrong with it, and nothing has changed."""

    loss: float
    scores: Callable[[], dict[str, float]]
    fault: DivergedError | None = None


class Members:
    """Loops that train as one. Each has its own step: batch, rates and counters of a member are functions of it.

    Args:
        loops: of the same task, model, batch and kind of optimiser.
        ahead: samples the next batches while this step computes.
    """

    def __init__(self, loops: list[Loop], ahead: "Ahead") -> None:
        self.loops, self.ahead = loops, ahead
        self.stacked = Stacked(loops)
        self.optimizer = StackedOptimizer(self.stacked)
        self.task = loops[0].settings.task
        with torch.random.fork_rng(devices=()):
            self.network = copy.deepcopy(loops[0].network)
        with torch.no_grad():  # its loops are compiled outside of vmap
            self.network(place(loops[0].objective.batches[0], torch.device("cpu"), self.network.dtype).inputs)  # type: ignore[attr-defined]
        self.penalized = [e for e, loop in enumerate(loops) if loop.network.penalized]
        self.maps = [
            (map, free)
            for loop in loops
            for map, free in mapped_weights(loop.network)
            if type(map).after_step is not Map.after_step
        ]
        clip = [loop.settings.optimiser.clip or math.inf for loop in loops]
        self.clip = torch.tensor(clip, dtype=self.stacked.weights.dtype)
        self.shown: set[int] = set()

    def train_step(self) -> list[Taken]:
        """One step of every member. A member whose loss or gradient is not finite stays as it was."""
        started = time.perf_counter()
        batch = self.ahead.take(self.loops)
        outputs = self.outputs(batch.inputs)
        losses = self.task.losses(outputs, batch)
        self.stacked.differentiate(losses.sum())
        for e in self.penalized:
            penalty = self.loops[e].network.penalty()
            if penalty is not None and penalty.requires_grad:
                self.stacked.add_gradients(e, penalty)
        values = losses.tolist()
        norms = self._clip()
        faults = [self._fault(loop, *found) for loop, *found in zip(self.loops, values, *norms, strict=True)]
        self._update([e for e, fault in enumerate(faults) if fault is not None])
        found = outputs.detach()
        seconds = time.perf_counter() - started
        taken = []
        for e, (loop, fault) in enumerate(zip(self.loops, faults, strict=True)):
            if fault is None:
                loop.step += 1
                loop.seconds += seconds
            taken.append(Taken(values[e], partial(_scores, self.task, found, batch, e), fault))
        return taken

    def outputs(self, inputs: Tensor) -> Tensor:
        """What the networks give, ``(E, S, B, C)``."""

        def of_one(tensors: dict[str, Tensor], own: Tensor) -> Tensor:
            outputs: Tensor = functional_call(self.network, tensors, (own,))[0]
            return outputs

        with together():
            found: Tensor = vmap(of_one)({**self.stacked.parameters, **self.stacked.buffers}, inputs)
        return found

    def _clip(self) -> tuple[list[float], list[float]]:
        """Clip each member's gradient; the norms of what is clipped, and of the orthogonal parameters."""
        grads, cut = self.stacked.grads, self.stacked.columns.clipped
        with torch.no_grad():
            norms = torch.linalg.vector_norm(grads[:, :cut], dim=1)
            others = torch.linalg.vector_norm(grads[:, cut:], dim=1)
            if bool(self.clip.isfinite().any()):
                grads[:, :cut].mul_((self.clip / (norms + 1e-6)).clamp_(max=1.0)[:, None])
        return norms.tolist(), others.tolist()

    def _fault(self, loop: Loop, loss: float, *norms: float) -> DivergedError | None:
        for what, value in (("the loss", loss), *(("the gradient", norm) for norm in norms)):
            if not math.isfinite(value):
                return DivergedError(f"{what} is {value} at step {loop.step + 1}")
        return None

    @torch.no_grad()
    def _update(self, bad: list[int]) -> None:
        """A step of the optimisers; the rows of ``bad`` stay as they are."""
        stacked = self.stacked
        changed = [stacked.weights, stacked.counts, *stacked.moments.values()] if bad else []
        kept = [rows[bad] for rows in changed]
        factors = [loop.schedule.factor(loop.step) for loop in self.loops]
        for loop, factor in zip(self.loops, factors, strict=True):
            loop.optimizers.scale(factor)
        self.optimizer.step(factors)
        for rows, before in zip(changed, kept, strict=True):
            rows[bad] = before
        for e in range(len(self.loops)):
            if e not in self.shown and e not in bad:
                stacked.show_moments(e)
                self.shown.add(e)
        for map, free in self.maps:
            map.after_step(*free)


def _scores(task: Any, outputs: Tensor, batch: Batch, e: int) -> dict[str, float]:
    found: dict[str, float] = task.metrics(outputs[e], Batch(*(part[e] for part in batch)))
    return found


class Ahead:
    """The batches of a step, stacked; those of the next step are sampled by a second thread while this one computes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(1, initializer=self._prepare)
        self.coming: tuple[list[tuple[int, int]], Future[Batch]] | None = None

    def _prepare(self) -> None:
        torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)

    def take(self, loops: list[Loop]) -> Batch:
        """The batches of these loops' next steps."""
        wanted = [(id(loop), loop.step) for loop in loops]
        coming, self.coming = self.coming, None
        if coming is not None and coming[0] == wanted:
            batch = coming[1].result()
        else:
            batch = self.pool.submit(_sample, loops, [k for _, k in wanted]).result()
        self.coming = (
            [(who, k + 1) for who, k in wanted],
            self.pool.submit(_sample, loops, [k + 1 for _, k in wanted]),
        )
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)


def _sample(loops: list[Loop], steps: list[int]) -> Batch:
    """Batch k of every member, stacked; members of one seed share it."""
    known: dict[tuple[int, int], Batch] = {}
    found = []
    for loop, k in zip(loops, steps, strict=True):
        key = (loop.settings.seed, k)
        if key not in known:
            known[key] = place(loop.objective.batches[k], torch.device("cpu"), loop.network.dtype)  # type: ignore[attr-defined]
        found.append(known[key])
    return Batch(*map(torch.stack, zip(*found, strict=True)))
