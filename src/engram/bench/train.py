"""``engram bench train``: what a safe, logged, resumable run costs over a bare loop of the same model."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.tasks import Adding, Copy, Parity, seeded
from engram.train import Optimizers, RunDirectory, Settings, Worker, make_fabric, make_network

# So small a rate leaves the weights as they are: the cost of a step depends on them, and must be equal in both loops.
FROZEN: dict[str, Any] = {"validate_every": 0, "lr": 1e-12}
CASES = {
    "copy, delay 200, exprnn 128": Settings.of(Copy(200), "exprnn", **FROZEN),
    "copy, delay 200, nnrnn 128": Settings.of(Copy(200), "nnrnn", **FROZEN),
    "copy, delay 200, lstm 128": Settings.of(Copy(200), "lstm", **FROZEN),
    "adding, length 200, exprnn 128": Settings.of(Adding(200), "exprnn", **FROZEN),
    "parity, length 20, rnn 32": Settings.of(Parity(), "rnn", hidden=32, **FROZEN),
}
STEPS = 20
"""Steps of one measured call."""
TARGETS = {"engram train/bare loop": (1.05, None)}
"""At most: the geometric mean, the worst case."""


def bare_loop(settings: Settings) -> Callable[[], None]:
    """Sample, forward, backward, clip, step: what one would write by hand."""
    torch.manual_seed(settings.seed)
    network = make_network(settings)
    optimizers = Optimizers(network, settings.optimiser)
    optimizer, clipped = optimizers.all[0], optimizers.clipped
    generator = seeded(settings.seed)

    def call() -> None:
        for _ in range(STEPS):
            batch = settings.task.sample(settings.budget.batch, generator)
            loss = settings.task.loss(network(batch.inputs)[0], batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(clipped, settings.optimiser.clip)
            optimizer.step()

    return call


@contextmanager
def engram_loop(settings: Settings, folder: Path) -> Iterator[Callable[[], None]]:
    """The same through a run directory: metrics, checkpoints, the check for NaN."""
    worker = Worker(make_fabric(settings), RunDirectory.create(folder, settings))
    worker.loop.total = 0

    def call() -> None:
        worker.loop.total += STEPS
        worker.train()

    try:
        yield call
    finally:
        worker.report.close()
        worker.metrics.close()


def bench_train(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race both loops; returns ``summary``, ``rows`` and ``machine``."""
    rows: list[dict[str, Any]] = []
    ratios = []
    for name in list(CASES)[-1:] if quick else CASES:
        with tempfile.TemporaryDirectory() as folder, engram_loop(CASES[name], Path(folder, "run")) as ours:
            times = interleaved({"bare loop": bare_loop(CASES[name]), "engram train": ours}, repeats)
        rows += [{"case": name, "contestant": who, **spread(seconds)} for who, seconds in times.items()]
        ratios.append(median(times["engram train"]) / median(times["bare loop"]))
        tell(f"{name}: {ratios[-1]:.3f} of a bare loop")
    summary = {"engram train/bare loop": {"geomean": geomean(ratios), "worst": max(ratios)}}
    return {"summary": summary, "rows": rows, "machine": machine()}
