"""Networks as ONNX files, which other programs run: torch.export traces the network; loops become ``Scan``."""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from engram.convert._baked import baked
from engram.errors import DTypeError, OptionError
from engram.files import write_whole
from engram.models import Network
from engram.nn import Recurrent, TensorNet

PACKAGES = ("onnx", "onnxscript")
STEPS, BATCH = 5, 3
"""Sizes of the input for tracing; the file works for any others."""


def to_onnx(network: nn.Module, path: Path | str, sample: Tensor | None = None) -> None:
    """Write a network or layer as an ONNX model from ``input`` to ``output``, for any number of steps and sequences.

    What depends only on the weights, such as the matrix of a map, is computed beforehand. The network is written in
    evaluation mode, without dropout, and starts from its own initial state. For a network that answers once, after a
    fixed number of inputs (:class:`engram.nn.TensorNet`), the number of steps is fixed. Needs the packages onnx and
    onnxscript.

    Args:
        network: an :class:`engram.models.Network`, a layer, or any module with one tensor ``(T, B, ...)`` as its input.
        path: of the file.
        sample: an input with at least two steps and sequences; default: random numbers, for a Network or a layer of
            engram.
    """
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError:
            raise OptionError(
                f"to write an ONNX file the packages {' and '.join(PACKAGES)} are needed: pip install "
                f"{' '.join(PACKAGES)}"
            ) from None
    _check(network)
    sample = sample_input(network) if sample is None else sample
    core = network.core if isinstance(network, Network) else network
    names = ["batch", "steps"] if getattr(core, "batch_first", False) else ["steps", "batch"]
    if isinstance(core, TensorNet):
        names.remove("steps")
        axes = {0 if core.batch_first else 1: "batch"}
    else:
        axes = dict(enumerate(names))
    alone = _Answer(copy.deepcopy(network)).eval()
    with torch.no_grad(), _quiet():
        dynamic = (dict.fromkeys(axes, Dim.DYNAMIC),)
        program = torch.export.export(alone, (sample,), dynamic_shapes=dynamic)
        written: Any = torch.onnx.export(
            baked(program),
            (sample,),
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=(axes,),
            dynamo=True,
            verbose=False,
        )
    write_whole(Path(path), written.model_proto.SerializeToString())


class _Answer(nn.Module):
    """A network that returns its output without its state."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, input: Tensor) -> Tensor:
        answer: Any = self.network(input)
        output: Tensor = answer[0] if isinstance(answer, tuple) else answer
        return output


def _check(network: nn.Module) -> None:
    """Raise an error for complex weights and for torch's recurrent layers."""
    for name, module in network.named_modules():
        if isinstance(module, nn.RNNBase):
            kind = type(module).__name__
            raise OptionError(
                f"torch.export unrolls torch.nn.{kind} for one number of steps, got one at {name or 'the network'!r}: "
                "use a layer of engram.nn, whose loop is one operation"
            )
    for name, tensor in chain(network.named_parameters(), network.named_buffers()):
        if tensor.is_complex():
            raise DTypeError(
                "ONNX has no complex numbers, and torch's exporter has real forms of only some complex operations; "
                f"{name} is {tensor.dtype}: use a real layer"
            )


def sample_input(network: nn.Module, steps: int = STEPS, batch: int = BATCH) -> Tensor:
    """Random numbers or symbols in the shape that a Network or a layer of engram takes."""
    core: Any = network.core if isinstance(network, Network) else network
    steps = core.steps if isinstance(core, TensorNet) else steps
    lead = (batch, steps) if getattr(core, "batch_first", False) else (steps, batch)
    if isinstance(network, Network):
        if network.vocabulary or network.objects is not None:
            count = network.vocabulary if network.objects is None else len(network.objects)
            return torch.randint(count, lead)
        shape: Any = network.encoder.shape
        return torch.rand(*lead, *shape, dtype=network.dtype)
    if isinstance(network, Recurrent | TensorNet):
        return torch.randn(*lead, core.input_size, dtype=next(network.parameters()).dtype)
    raise OptionError(
        f"the input of {type(network).__name__} is not known, only that of a Network or layer of engram: pass a sample"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log messages and warnings of torch's exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
