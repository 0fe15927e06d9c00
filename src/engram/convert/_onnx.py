"""Layers as files that other programs run."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from engram.errors import DTypeError, OptionError
from engram.files import write_whole
from engram.nn import RNN

ACTIVATIONS = {"identity": "Affine", "tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}
"""Of a step, by ONNX's names."""


@torch.no_grad()
def to_onnx(layer: RNN, path: Path | str) -> None:
    """Write a layer as an ONNX model of ``RNN`` nodes: ``input`` to ``output``, any number of steps and of sequences.

    For an :class:`engram.nn.RNN` under any map (its matrix is baked in) with activation identity, tanh, relu or sigmoid
    in the recurrence, from a zero initial state. Dropout is left out. Needs the package onnx.
    onnxruntime runs ``RNN`` nodes in float32 only: write ``layer.float()`` for it.
    """
    _check(layer)
    try:
        onnx: Any = import_module("onnx")
    except ImportError:
        raise OptionError("to write an ONNX file the package onnx is needed: pip install onnx") from None
    helper, kinds = onnx.helper, onnx.TensorProto
    kind = kinds.DOUBLE if layer.cells[0].weight_ih.dtype == torch.float64 else kinds.FLOAT
    order = [1, 0, 2] if layer.batch_first else [0, 1, 2]  # to time first, and back
    nodes = [helper.make_node("Transpose", ["input"], ["x0"], perm=order)]
    weights: dict[str, npt.NDArray[Any]] = {"width": np.array([0, 0, layer.directions * layer.hidden_size])}
    for number in range(layer.num_layers):
        named = _weights(layer, number)
        weights |= named
        options: dict[str, Any] = {
            "hidden_size": layer.hidden_size,
            "direction": "bidirectional" if layer.bidirectional else "forward",
            "activations": [ACTIVATIONS[layer.cells[0].activation]] * layer.directions,
        }
        if layer.cells[0].activation == "identity":  # alpha x + beta
            options |= {"activation_alpha": [1.0] * layer.directions, "activation_beta": [0.0] * layer.directions}
        nodes += [
            helper.make_node("RNN", [f"x{number}", *named], [f"y{number}"], **options),  # (T, directions, B, H)
            helper.make_node("Transpose", [f"y{number}"], [f"z{number}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"z{number}", "width"], [f"x{number + 1}"]),
        ]
    nodes.append(helper.make_node("Transpose", [f"x{layer.num_layers}"], ["output"], perm=order))
    axes = ["batch", "steps"] if layer.batch_first else ["steps", "batch"]
    sizes = {"input": layer.input_size, "output": layer.directions * layer.hidden_size}
    ends = [helper.make_tensor_value_info(name, kind, [*axes, size]) for name, size in sizes.items()]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, type(layer).__name__, ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    write_whole(Path(path), model.SerializeToString())


def _weights(layer: RNN, number: int) -> dict[str, npt.NDArray[Any]]:
    """W, R and B of a layer, as ONNX orders them: directions first, two biases."""
    cells: list[Any] = list(layer.cells[number * layer.directions : (number + 1) * layer.directions])
    zero = torch.zeros_like(cells[0].weight_ih[:, 0])
    parts = {
        "W": [cell.weight_ih for cell in cells],
        "R": [cell.weight_hh for cell in cells],
        "B": [torch.cat([zero if cell.bias is None else cell.bias, zero]) for cell in cells],
    }
    return {f"{name}{number}": torch.stack(part).cpu().numpy() for name, part in parts.items()}


def _check(layer: RNN) -> None:
    if not isinstance(layer, RNN):
        raise DTypeError(f"ONNX has a node for engram.nn.RNN and its presets alone; got {type(layer).__name__}")
    cell = layer.cells[0]
    in_time = cell.activation_in == "recurrence" or cell.activation == "identity"
    if cell.activation not in ACTIVATIONS or not in_time or cell.start is not None or cell.weight_ih.is_complex():
        raise OptionError(
            f"ONNX's RNN knows the activations {', '.join(ACTIVATIONS)}, in the recurrence, of real numbers, from a "
            f"zero initial state; this layer has activation={cell.activation!r}, activation_in={cell.activation_in!r}, "
            f"{cell.weight_ih.dtype}, initial_state={'zero' if cell.start is None else 'trained'!r}"
        )
