"""The tensors of a module by name, and the module with other tensors in their place."""

from typing import Any

from torch import Tensor, nn


def _own(module: nn.Module) -> dict[str, Tensor]:
    attributes = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
    every = {**module._parameters, **module._buffers, **attributes}
    return {name: tensor for name, tensor in every.items() if tensor is not None}


def tensors_of(cell: nn.Module) -> dict[str, Tensor]:
    """All tensors that a step could read: parameters, buffers, and plain attributes (built weights)."""
    return {
        f"{prefix}.{name}" if prefix else name: tensor
        for prefix, module in cell.named_modules()
        for name, tensor in _own(module).items()
    }


def with_tensors(module: nn.Module, tensors: dict[str, Tensor], prefix: str = "") -> Any:
    """A copy of a module that has these tensors as plain attributes, and none of its own."""
    view = type(module).__new__(type(module))
    view.__dict__.update({name: value for name, value in module.__dict__.items() if name != "_built_from"})
    own = _own(module)
    view.__dict__["_parameters"] = {name: None for name in module._parameters if name not in own}
    view.__dict__["_buffers"] = {name: None for name in module._buffers if name not in own}
    view.__dict__["_modules"] = {
        name: None if child is None else with_tensors(child, tensors, f"{prefix}{name}.")
        for name, child in module._modules.items()
    }
    view.__dict__.update({name: tensors[prefix + name] for name in own})
    return view


def named(cell: Any, name: str) -> Tensor:
    """A tensor of a cell by its name, with dots for modules inside the cell."""
    *path, last = name.split(".")
    for part in path:
        cell = cell._modules[part]
    for place in (cell._parameters, cell._buffers, cell.__dict__):
        if (tensor := place.get(last)) is not None:
            found: Tensor = tensor
            return found
    raise KeyError(name)
