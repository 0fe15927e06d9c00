"""The profile of a trained network, on the inputs of its own task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engram.errors import RunError
from engram.probe._profile import Profile, profile
from engram.tasks import seeded
from engram.train import RunDirectory, load_network, steps_trained

LONGEST = 1000
"""Steps of a task that are measured by default."""


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
        best: whether to take the weights of the best validation, or the last ones.
        length: how many steps of a sequence are measured, from its start. Default: all, up to 1,000. With fewer steps
            than the task has, the loss is half the squared last output in place of the task's.
        batch: B, the test sequences.
        seed: random seed of the test sequences.
        allow: packages and files with code outside engram that the run may import. Default: none.
        options: arguments of :func:`profile`: parts, name, loss, before, each.
    """
    run = RunDirectory(folder, allow)
    task, network = run.settings.task, load_network(folder, best=best, allow=allow)
    if len(task.input_shape) != 1:
        raise RunError(
            f"{task.name} shows inputs of the shape {task.input_shape} at a step: a probe needs vectors or symbols"
        )
    sample = task.sample(batch, seeded(seed, "probe"))
    steps = min(len(sample.inputs), LONGEST if length is None else length)
    if length is not None and length > len(sample.inputs):
        raise RunError(f"length must be at most {len(sample.inputs)}, the steps of this run's task, got {length}")

    def loss(outputs: Tensor) -> Tensor:
        return task.loss(outputs if task.answer == "every" else outputs[-1:], sample)

    whole = steps == len(sample.inputs)
    inputs = sample.inputs[:steps]
    name = f"{run.settings.model.label} on {task.name}, {steps_trained(folder, best=best):,} steps trained"
    options = {"name": name, "loss": loss if whole else None} | options
    data = inputs if network.vocabulary else inputs.to(network.dtype)
    with torch.random.fork_rng(devices=()):
        return profile(network, length=steps, batch_first=False, data=data, seed=seed, **options)
