"""When two cells may share a loop: all that a step could read of its cell, apart from the numbers in its tensors."""

from typing import Any

import torch
from torch import Tensor, nn

SIMPLE = (int, float, complex, str, bool, type(None), torch.dtype, torch.device)
TORCHS_OWN = set(vars(nn.Module()))
NO_OPTIONS = {"_built_from", "_changes", "laws", "declared"}
"""Attributes that no step reads: those of torch.nn.Module, and engram's own records."""


def fingerprint(cell: Any) -> Any:
    """All that a step could read of its cell; None if that is more than numbers, words and tensors."""
    kind = type(cell)
    written = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    simple = {name: value for name, value in written.items() if isinstance(value, SIMPLE) and not name.startswith("__")}
    own = {**vars(cell), **cell._parameters, **cell._buffers}
    try:
        options = [(name, _option(value)) for name, value in sorted(own.items()) if name not in TORCHS_OWN | NO_OPTIONS]
    except TypeError:
        return None
    if any(child is not None for child in cell._modules.values()):
        return None
    return (kind, cell.training, kind.step, kind.drive, kind.output, repr(simple), *options)


def children(cell: nn.Module) -> Any:
    """The attributes of the modules inside a cell, which may change without its knowledge."""
    return tuple(
        (
            name,
            type(child),
            len(child._forward_hooks) + len(child._forward_pre_hooks),
            *(key for key, tensor in child._parameters.items() if tensor is not None),
            *((key, repr(value)) for key, value in vars(child).items() if isinstance(value, SIMPLE)),
        )
        for name, child in cell.named_modules()
        if name
    )


def _option(value: Any, inside: bool = False) -> Any:
    """An attribute in the fingerprint; of a tensor its form alone, since every call gives the loop its numbers."""
    if isinstance(value, Tensor) and not inside:
        return (tuple(value.shape), value.dtype, value.device, value.requires_grad)
    if isinstance(value, SIMPLE):
        return (type(value), repr(value))
    if isinstance(value, (tuple, list)):
        return (type(value), *(_option(item, inside=True) for item in value))
    raise TypeError
