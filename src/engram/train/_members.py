"""Several runs that take their steps as one: one network, called once for all of them under ``torch.func.vmap``."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from engram.errors import DivergedError
from engram.maps import Map, leave, mapped_weights, together
from engram.tasks import Batch
from engram.train._evaluate import place
from engram.train._fabric import make_fabric
from engram.train._loop import Loop
from engram.train._settings import Settings
from engram.train._stacked import Stacked
from engram.train._stacked_optimizer import StackedOptimizer


class Taken(NamedTuple):
    """What a step gave a member, as :meth:`Loop.train_step`; or what was wrong with it, and nothing has changed."""

    loss: float
    scores: Callable[[], dict[str, float]]
    fault: DivergedError | None = None


class Place(NamedTuple):
    """Where the network holds a tensor of which each member has its own.

    held, name: the dictionary of a module and the name in it. stacked: those of all members. before: the network's own.
    is_buffer: a call may change it, as a batch normalisation its running mean; under vmap torch does so only in a
    tensor without gaps: of any other it changes a copy, which is then thrown away.
    """

    held: dict[str, Any]
    name: str
    stacked: Tensor
    before: Tensor
    is_buffer: bool


class Members:
    """Loops that train as one. Each has its own step: batch, rates and counters of a member are functions of it.

    Args:
        loops: of the same task, model, batch and kind of optimiser; None for a place without a run, which is computed
            with a copy of the first run's numbers, so that there are always as many members.
        batches: gives the batches of their next steps.
    """

    def __init__(self, loops: list[Loop | None], batches: "Now | Ahead") -> None:
        self.stacked = Stacked(loops)
        self.own = [e for e, loop in enumerate(loops) if loop is not None]
        first = next(loop for loop in loops if loop is not None)
        self.loops, self.batches = [loop or first for loop in loops], batches
        self.optimizer = StackedOptimizer(self.stacked)
        self.task, self.network = first.settings.task, copy.deepcopy(first.network)
        with torch.no_grad(), torch.random.fork_rng(devices=()):  # its loops are compiled here, outside of vmap
            self.network(batches.take([first]).inputs[0])
        self.places = self._places()
        self.penalized = [e for e in self.own if self.loops[e].network.penalized]
        self.maps = [
            (e, map, free)
            for e in self.own
            for map, free in mapped_weights(self.loops[e].network)
            if type(map).after_step is not Map.after_step
        ]
        clip = [loop.settings.optimiser.clip or math.inf for loop in self.loops]
        self.clip = torch.tensor(clip, dtype=self.stacked.weights.dtype)
        self.shown: set[int] = set()

    def train_step(self) -> list[Taken]:
        """One step of every member. A member whose loss or gradient is not finite stays as it was."""
        started = time.perf_counter()
        batch = self.batches.take(self.loops)
        before = [(place.stacked, place.stacked.clone()) for place in self.places if place.is_buffer]
        outputs, penalties = self.outputs(batch.inputs)
        losses = self.task.losses(outputs, batch)
        self.stacked.differentiate((losses if penalties is None else losses + penalties).sum())
        for e in self.penalized:
            penalty = self.loops[e].network.penalty_of_weights()
            if penalty is not None and penalty.requires_grad:
                self.stacked.add_gradients(e, penalty)
        values = losses.tolist()
        norms = self._clip()
        faults = [self._fault(loop, *found) for loop, *found in zip(self.loops, values, *norms, strict=True)]
        bad = [e for e, fault in enumerate(faults) if fault is not None]
        self._update(bad)
        for rows, were in before:
            rows[bad] = were[bad]
        found = outputs.detach()
        seconds = time.perf_counter() - started
        taken = []
        for e, fault in enumerate(faults):
            if fault is None and e in self.own:
                self.loops[e].step += 1
                self.loops[e].seconds += seconds
            taken.append(Taken(values[e], partial(_scores, self.task, found, batch, e), fault))
        return taken

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the networks give, ``(E, S, B, C)``: one call of the network with each member's numbers in it; and the
        penalties that depend on that call, ``(E)``, if there are any."""
        given = [place.stacked.contiguous() if place.is_buffer else place.stacked for place in self.places]
        try:
            with together(len(self.loops)) as each:
                for place, rows in zip(self.places, given, strict=True):
                    place.held[place.name] = each(rows)
                outputs = leave(self.network(each(inputs))[0])
                penalty = self.network.penalty_of_call()
                return outputs, None if penalty is None else leave(penalty)
        finally:
            for place, rows in zip(self.places, given, strict=True):
                place.held[place.name] = place.before
                if rows is not place.stacked:
                    place.stacked.copy_(rows)

    def _places(self) -> "list[Place]":
        """Where the network holds what differs from member to member."""
        stacked = {**self.stacked.parameters, **self.stacked.frozen, **self.stacked.buffers}
        named = {id(t): stacked.get(name) for name, t in self.network.named_parameters()}
        named |= {id(t): stacked.get(name) for name, t in self.network.named_buffers()}
        return [
            Place(held, name, found, tensor, held is module._buffers)
            for module in self.network.modules()
            for held in (module._parameters, module._buffers)
            for name, tensor in held.items()
            if tensor is not None and (found := named.get(id(tensor))) is not None
        ]

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
        for e in self.own:
            if e not in self.shown and e not in bad:
                stacked.show_moments(e)
                self.shown.add(e)
        for e, map, free in self.maps:
            if e not in bad:
                map.after_step(*free)


def _scores(task: Any, outputs: Tensor, batch: Batch, e: int) -> dict[str, float]:
    found: dict[str, float] = task.metrics(outputs[e], Batch(*(part[e] for part in batch)))
    return found


@contextmanager
def together_steps(settings: list[Settings]) -> Iterator[Callable[[int], None]]:
    """A block with a function that trains new runs of these settings as one, without files: ``call(steps)``."""
    fabric = make_fabric(settings[0])
    loops = [Loop(each, fabric) for each in settings]
    with Ahead(settings[0].machine.threads) as ahead:
        members = Members(list(loops), ahead)

        def call(steps: int) -> None:
            for _ in range(steps):
                members.train_step()

        yield call


class Now:
    """The batches of a step, stacked; they are sampled when they are asked for."""

    def take(self, loops: list[Loop]) -> Batch:
        """The batches of these loops' next steps."""
        return _sample(loops, [loop.step for loop in loops])


class Ahead:
    """As :class:`Now`, but a second thread samples the batches of the next step while this one is computed."""

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
        after = [(who, k + 1) for who, k in wanted]
        self.coming = after, self.pool.submit(_sample, loops, [k for _, k in after])
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
