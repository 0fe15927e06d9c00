"""From a cell to its plan: the tensors that its step reads are found, the step is traced, lowered and planned."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from engram.loops import _composites  # noqa: F401  (registers its rules)
from engram.loops._lower import lower
from engram.loops._plan import Plan, make_plan
from engram.loops._trace import BATCHES, CannotCompile, compare, fresh, record
from engram.state import each, parts


def weights_of(cell: nn.Module) -> dict[str, Tensor]:
    """All tensors that a step could read: parameters, buffers, and tensors that are plain attributes (built weights)."""
    found: dict[str, Tensor] = {}
    for prefix, module in cell.named_modules():
        own = {**module._parameters, **module._buffers, **{k: v for k, v in vars(module).items() if isinstance(v, Tensor)}}
        for name, tensor in own.items():
            if tensor is not None:
                found[f"{prefix}.{name}" if prefix else name] = tensor
    return found


def view_of(module: nn.Module, tensors: dict[str, Tensor], prefix: str = "") -> Any:
    """A copy of a module that has these tensors as plain attributes, and none of its own."""
    view = type(module).__new__(type(module))
    view.__dict__.update(module.__dict__)
    view.__dict__["_parameters"] = {k: v for k, v in module._parameters.items() if v is None}
    view.__dict__["_buffers"] = {k: v for k, v in module._buffers.items() if v is None}
    view.__dict__["_modules"] = {}
    for name, child in module._modules.items():
        view.__dict__["_modules"][name] = None if child is None else view_of(child, tensors, f"{prefix}{name}.")
    own = {**module._parameters, **module._buffers, **{k: v for k, v in vars(module).items() if isinstance(v, Tensor)}}
    for name, tensor in own.items():
        if tensor is not None:
            view.__dict__[name] = tensors[prefix + name]
    return view


def compile_cell(cell: Any, with_drive: bool = True) -> tuple[Plan, list[str]]:
    """The plan of a cell whose weights are built, and the names of the tensors that it takes."""
    if any(field.grows for field in parts(cell.fields())):
        raise CannotCompile("a field of the state grows with time")
    weights = weights_of(cell)
    names = list(weights)
    records = []
    for batch in BATCHES:
        leaves = {name: fresh(tensor) for name, tensor in weights.items()}
        view = view_of(cell, leaves)
        state = each(fresh, cell.initial_state(batch))
        like = cell.like
        x = torch.rand(batch, cell.input_size, dtype=like.dtype, device=like.device)

        def step(drives: list[Tensor], state: Any, view: Any = view) -> Any:
            new = view.step(view.drive(drives[0]), state)
            return view.output(new), new

        records.append(record(step, [fresh(x)], state, [leaves[name] for name in names]))
    compare(*records)
    return make_plan(lower(*records)), names


__all__ = ["compile_cell", "copy"]
