"""A saved run whose layer was converted, as a run of its own."""

import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Any

import torch
from torch import Tensor, nn

from engram.cli._run_words import check_run
from engram.errors import OptionError, RunError
from engram.models import EveryStep, Network
from engram.nn import LinearRNN
from engram.train import RunDirectory, Settings, Worker, load_network, make_fabric, without_denormals

COMPARED = 1024
"""Sequences of the test that both networks run on, about."""


def load_run(folder: Path, output: Path, *, best: bool, allow: Sequence[str]) -> tuple[RunDirectory, Network]:
    """A run and its network, which is a layer and a read-out; before anything is computed for an output in use."""
    check_run(folder)
    run, network = RunDirectory(folder, allow), load_network(folder, best=best, allow=allow)
    if (output / "run.json").exists():
        raise RunError(f"{output} holds a run already: give another directory with -o")
    if not isinstance(network.head, EveryStep):  # all read-outs are of that kind
        raise OptionError(
            f"{folder} is a run of {run.settings.model.label}, one tensor without a layer: it stays as it is"
        )
    return run, network


def settings_of(settings: Settings, layer: Any) -> Settings:
    """Settings whose network has this layer, an RNN without a map."""
    cell, linear = layer.cells[0], isinstance(layer, LinearRNN)
    if cell.weight_ih.is_complex():
        raise OptionError("complex weights are no option of a run: convert its layer in Python, with engram.convert")
    options: dict[str, Any] = {} if linear else {"activation": cell.activation, "activation_in": cell.activation_in}
    options |= {"bias": False} if cell.bias is None else {}
    options |= {"initial_state": "trained"} if cell.start is not None else {}
    options |= {name: getattr(layer, name) for name in ("dropout", "bidirectional") if getattr(layer, name)}
    return settings.replace(
        model="linear-rnn" if linear else "rnn",
        hidden=layer.hidden_size,
        layers=layer.num_layers,
        options=options,
    )


def write_run(folder: Path, settings: Settings, network: Network, layer: nn.Module, selection: Tensor) -> RunDirectory:
    """A run of no steps: the old embedding, the new layer, and the old read-out on the ``selection`` of its features.

    It is tested as it is written; ``engram evaluate`` takes it, and ``engram resume --steps`` trains it further.
    """
    settings = settings.replace(steps=0, epochs=None, tensorboard=False, device="cpu", processes=1)
    made = RunDirectory.create(folder, settings, join(["engram", *sys.argv[1:]]))
    with without_denormals(settings.machine.threads), torch.no_grad():
        worker = Worker(make_fabric(settings), made)
        new: Any = worker.loop.network
        new.core.load_state_dict(layer.state_dict())
        new.head.weight.zero_()
        new.head.weight[:, selection] = network.head.weight
        if network.head.bias is not None:
            new.head.bias.copy_(network.head.bias)
        new.encoder.load_state_dict(network.encoder.state_dict())
        worker.work()
    return RunDirectory(folder, made.allow)


@torch.no_grad()
def compared(settings: Settings, before: Network, after: Network) -> dict[str, float]:
    """The largest difference of the outputs on sequences of the test, and the largest output."""
    exam, task = next(iter(settings.task.exams().items()))
    batches = settings.batches(exam, task)
    found = {"sequences": 0, "difference": 0.0, "largest_output": 0.0}
    for k in range(min(batches.per_epoch, -(-COMPARED // settings.budget.batch))):
        inputs = batches[k].inputs
        inputs = inputs.to(before.dtype) if inputs.is_floating_point() else inputs
        old, new = before(inputs)[0], after(inputs)[0]
        found["sequences"] += inputs.shape[1]
        found["difference"] = max(found["difference"], float((old - new).abs().max()))
        found["largest_output"] = max(found["largest_output"], float(old.abs().max()))
    return found
