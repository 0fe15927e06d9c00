"""What a run has learned."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from engram.errors import RunError, check_choice
from engram.models import Network, objects_of
from engram.tasks import Task, make_task, task_name
from engram.train._checkpoint import load, under
from engram.train._denormals import without_denormals
from engram.train._directory import RunDirectory
from engram.train._evaluate import evaluate_split
from engram.train._memory import check_batches
from engram.train._network import make_network


def load_network(folder: Path | str, *, best: bool = True, allow: Sequence[str] = ()) -> Network:
    """The network of a run, finished or not, in evaluation mode: the weights of its best validation, or the last.

    ``allow`` has the packages and files of a run with code outside engram: they are not imported else.
    """
    run = RunDirectory(folder, allow)
    tensors = load(run.folder).tensors
    weights = (under("best.", tensors) if best else {}) or under("network.", tensors)
    with torch.random.fork_rng(devices=()):
        network = make_network(run.settings)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"the checkpoint of {run.folder} does not fit its settings: {error}") from None
    return network.eval()


def steps_trained(folder: Path | str, *, best: bool = True) -> int:
    """After how many steps the run had the weights that :func:`load_network` gives."""
    values = load(Path(folder)).values
    return int((values["best"]["step"] if best else 0) or values["step"])


def evaluate(
    folder: Path | str,
    split: str | None = None,
    *,
    best: bool = True,
    allow: Sequence[str] = (),
    after_batch: Callable[[int], None] = lambda k: None,
    **options: Any,
) -> dict[str, dict[str, float]]:
    """Loss and metrics of a run by split: ``{"test": {"loss": 0.01, "accuracy": 0.998}}``.

    Args:
        folder: the run directory.
        split: ``train``, ``valid``, ``test`` or another exam of the task; left out, all exams.
        best: the weights of the best validation, not the last.
        allow: packages and files of a run with code outside engram.
        after_batch: is told the number of each batch that is done.
        options: options of the task to change: a network trained at delay 100 is tested at ``delay=2000``.
    """
    run = RunDirectory(folder, allow)
    settings = run.settings
    if options:
        task = make_task(task_name(settings.task), **{**settings.task.options(), **options})
        settings = settings.replace(task=task)
    check_batches(settings)
    network = load_network(folder, best=best, allow=allow)
    _check_fit(settings.task, run.settings.task)
    if (objects := objects_of(settings.task)) is not None:
        network.objects = objects.to(network.dtype)  # other options may show other objects
    if split is not None:
        check_choice("split", split, ("train", "valid", *settings.task.exams()))
    exams = settings.task.exams()
    tasks = exams if split is None else {split: exams.get(split, settings.task)}
    if split == "train" and not settings.batches(split).per_epoch:
        raise RunError(f"{settings.task.name} samples new training sequences at each step: use test instead")
    dtype, device = network.dtype, torch.device("cpu")
    with without_denormals(settings.machine.threads):
        return {
            name: evaluate_split(network, task, settings.batches(name, task), device, dtype, after_batch)
            for name, task in tasks.items()
        }


def _check_fit(task: Task, trained_on: Task) -> None:
    sizes, before = (task.input_size, task.output_size), (trained_on.input_size, trained_on.output_size)
    if sizes != before or task.input_shape != trained_on.input_shape:
        raise RunError(
            f"this network was trained with {before[0]} inputs and {before[1]} outputs; "
            f"with these options {task.name} has {sizes[0]} and {sizes[1]}"
        )
