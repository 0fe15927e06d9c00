"""The profile of a trained network, on the inputs of its own task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engram.errors import RunError
from engram.probe._profile import Profile, profile
from engram.tasks import seeded
from engram.train import RunDirectory, load_network

LONGEST = 1000
"""Steps of a task that are looked at unless more are asked for."""


def profile_run(
    folder: Path | str,
    *,
    best: bool = True,
    length: int | None = None,
    batch: int = 4,
    seed: int = 0,
    allow: Sequence[str] = (),
    **options: Any,
) -> Profile:
    """:func:`profile` of the network of a run, finished or still training, on test sequences of its task.

    Args:
        folder: the run directory; its last checkpoint is read.
        best: the weights of the best validation, not the last.
        length: the steps looked at, the first of a sequence; all up to 1,000 unless given. Of a shorter part, and of
            more than 1,000 steps, the loss is half the squared last output, not that of the task.
        batch, seed: of the sequences drawn.
        allow: packages and files of a run with code outside engram, which is not imported else.
        options: as :func:`profile`.
    """
    run = RunDirectory(folder, allow)
    task, network = run.settings.task, load_network(folder, best=best, allow=allow)
    if len(task.input_shape) != 1:
        raise RunError(f"{task.name} shows {task.input_shape} at a step: a probe reads vectors or symbols")
    drawn = task.sample(batch, seeded(seed, "probe"))
    steps = min(len(drawn.inputs), LONGEST if length is None else length)
    if length is not None and length > len(drawn.inputs):
        raise RunError(f"sequences of this run's task have {len(drawn.inputs)} steps: --length {length} is more")

    def loss(outputs: Tensor) -> Tensor:
        return task.loss(outputs if task.answer == "every" else outputs[-1:], drawn)

    whole = steps == len(drawn.inputs)
    inputs = drawn.inputs[:steps]
    trained = max((line["step"] for line in run.metrics()), default=0)
    name = f"{run.settings.model.label} on {task.name}, {trained:,} steps trained"
    options = {"name": name, "loss": loss if whole else None} | options
    data = inputs if network.vocabulary else inputs.to(network.dtype)
    with torch.random.fork_rng(devices=()):
        return profile(network, length=steps, batch_first=False, data=data, seed=seed, **options)
