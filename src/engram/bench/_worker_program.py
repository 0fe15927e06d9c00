"""What a worker runs: build layers, and time one training step of one of them each time it is asked.

Requests come as lines of JSON on standard input, answers go as lines to standard output. This file is run by its path
in a process of its own, where ``engram`` may be an earlier version: it imports nothing of engram until a layer is asked
for, and then only what the request names.
"""

import gc
import importlib
import json
import sys
import time
import tomllib
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

PAUSE = 0.005
"""Seconds to wait before and after each step, until idle threads of the other process sleep."""


def make_layer(make: str, inputs: int, hidden: int, options: dict[str, Any]) -> nn.Module:
    """The layer ``module:name`` of this many inputs and hidden units."""
    module, _, name = make.partition(":")
    layer: nn.Module = getattr(importlib.import_module(module), name)(inputs, hidden, **options)
    return layer


def version_in(source: Path) -> str:
    """Of the engram in this folder: an unpacked wheel has it beside the package, a ``src`` in the file above it.

    ``engram.__version__`` of a ``src`` would be that of the engram which is installed.
    """
    for found in metadata.distributions(name="engram", path=[str(source)]):
        return found.version
    project = source.parent / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text())["project"]["version"])
    return "unknown"


class Steps:
    """The layers of one size, each ready for a training step."""

    def __init__(self) -> None:
        self.layers: dict[str, nn.Module] = {}
        self.input = self.gradient = torch.empty(0)

    def size(self, threads: int, size: list[int]) -> None:
        """Forget all layers, and take up another size: steps, batch, hidden units, inputs."""
        torch.set_num_threads(threads)
        steps, batch, hidden, inputs = size
        self.layers.clear()
        self.input, self.gradient = torch.randn(steps, batch, inputs), torch.randn(steps, batch, hidden)

    def layer(self, name: str, make: str, options: dict[str, Any]) -> None:
        self.layers[name] = make_layer(make, self.input.shape[-1], self.gradient.shape[-1], options)

    def step(self, name: str) -> float:
        """Seconds of forward and backward, weight gradients included."""
        layer = self.layers[name]
        gc.collect()
        gc.disable()
        time.sleep(PAUSE)
        try:
            start = time.perf_counter()
            layer.zero_grad(set_to_none=True)
            layer(self.input)[0].backward(self.gradient)
            took = time.perf_counter() - start
        finally:
            gc.enable()
        time.sleep(PAUSE)
        return took

    def engram(self) -> dict[str, str]:
        """Which engram this is."""
        file = Path(str(importlib.import_module("engram").__file__))
        return {"path": str(file), "version": version_in(file.parents[1])}


def main() -> None:
    answers, steps = sys.stdout, Steps()
    sys.stdout = sys.stderr  # whatever a layer prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(steps, request["do"])(*request["with"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
