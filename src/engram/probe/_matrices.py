"""The recurrent matrices of a module, wherever they are in it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from engram.maps import mapped_weights
from engram.nn import Recurrent


class RecurrentMatrix(NamedTuple):
    """A square weight_hh: its name in torch, the matrix, its map (None without one) and the map's parameters."""

    name: str
    weight: Tensor
    map: Any
    parameters: tuple[Tensor, ...]


def recurrent_matrices(module: nn.Module) -> list[RecurrentMatrix]:
    """Every square weight_hh of a module and its parts."""
    return [found for path, part in module.named_modules() for found in _of(part, f"{path}." if path else "")]


def _of(part: nn.Module, path: str) -> Iterator[RecurrentMatrix]:
    if isinstance(part, Recurrent):
        weights = [(f"weight_hh{suffix}", cell) for suffix, cell in part.named_cells() if hasattr(cell, "weight_hh")]
    else:
        own = [name for name, _ in part.named_parameters(recurse=False) if name.startswith("weight_hh_l")]
        weights = [(name, part) for name in own]
    for name, owner in weights:
        weight = getattr(part, name)
        if isinstance(weight, Tensor) and weight.dim() == 2 and weight.shape[0] == weight.shape[1]:
            maps = dict(zip(getattr(owner, "parametrizations", ()), mapped_weights(owner), strict=False))
            map, free = maps.get("weight_hh", (None, ()))
            yield RecurrentMatrix(path + name, weight.detach().cpu(), map, free)
