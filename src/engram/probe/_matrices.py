"""The recurrent matrices of a module, wherever they are in it."""

from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.maps import mapped_weights


def recurrent_matrices(module: nn.Module) -> list[tuple[str, Tensor, Any, tuple[Tensor, ...]]]:
    """Name, matrix, map and free parameters of every square weight_hh."""
    found = []
    for path, part in module.named_modules():
        mapped = parametrize.is_parametrized(part, "weight_hh")
        maps = dict(zip(part.parametrizations, mapped_weights(part), strict=False)) if mapped else {}
        names = [name for name, _ in part.named_parameters(recurse=False) if name.startswith("weight_hh")]
        names += ["weight_hh"] * mapped
        for name in names:
            weight = getattr(part, name)
            if isinstance(weight, Tensor) and weight.dim() == 2 and weight.shape[0] == weight.shape[1]:
                map, free = maps.get(name, (None, ()))
                found.append((f"{path}.{name}".lstrip("."), weight.detach().cpu(), map, free))
    return found
