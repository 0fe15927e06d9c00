"""Two things torch leaves out for modules with parametrized weights: pickling them, and baking the weights in.

torch gives such a module a class made at run time. Pickle cannot find that class again, so a file names the class that
somebody wrote and the other one is made when the file is read; and deep copies share it, so that torch's own
``remove_parametrizations`` on a copy takes the weight away from the original too.
"""

from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.errors import DataError
from engram.nn._kept import matrix_of

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def written_class(module: nn.Module) -> type[nn.Module]:
    """The class of a parametrized module as it stands in a program, before torch derived another from it."""
    return type(module).__bases__[0]


def _parametrizations(module: nn.Module) -> dict[str, nn.Module]:
    lists = module.parametrizations
    return dict(lists.items()) if isinstance(lists, nn.ModuleDict) else {}


def _other_modules(module: nn.Module) -> dict[str, nn.Module | None]:
    return {name: child for name, child in module._modules.items() if name != "parametrizations"}


def with_built_weights(module: AnyModule) -> AnyModule:
    """A view of a module in which every parametrized weight is a plain tensor, built now and still in the graph.

    For a loop that reads the weight at every step: through the view it is built once per call, and in evaluation less
    often (:mod:`engram.nn._kept`). (torch's own ``parametrize.cached``, which is obeyed where somebody uses it, is one
    switch for the whole process, unsafe with threads and with recomputation.)
    """
    if "parametrizations" not in module._modules:
        return module
    view = written_class(module).__new__(written_class(module))
    view.__dict__.update(module.__dict__)
    for name, entry in _parametrizations(module).items():
        view.__dict__[name] = getattr(module, name) if parametrize._cache_enabled else matrix_of(entry)
    view.__dict__["_modules"] = _other_modules(module)
    view.__dict__["_built_from"] = module  # what is known of the cell beside its numbers is kept there
    return cast(AnyModule, view)


def assign(module: nn.Module, name: str, value: Tensor) -> None:
    """Give a weight a value: through its map, which may refuse it, or in place if it is a plain parameter."""
    if parametrize.is_parametrized(module, name):
        setattr(module, name, value)
    else:
        with torch.no_grad():
            getattr(module, name).copy_(value)


def copy_weights(cell: nn.Module, other: nn.Module) -> None:
    """Give another cell the numbers of the weights, buffers and modules of this one that fit it, and freeze what is."""
    mine, theirs = (getattr(module, "parametrizations", {}) for module in (cell, other))
    for name in {**cell._parameters, **cell._buffers, **dict(mine), **other._parameters}:
        value, place = getattr(cell, name, None), getattr(other, name, None)
        if not isinstance(value, Tensor) or not isinstance(place, Tensor) or value.shape != place.shape:
            continue
        if name in mine and name in theirs and repr(mine[name]) == repr(theirs[name]):
            theirs[name].load_state_dict(mine[name].state_dict())
        else:
            assign(other, name, value.detach().to(place))
    for name, part in _other_modules(cell).items():
        same = other._modules.get(name)
        if part is not None and same is not None and _shapes(part) == _shapes(same):
            same.load_state_dict(part.state_dict())
    own = dict(cell.named_parameters())  # also the free parameters of maps
    for name, place in other.named_parameters():
        if name in own and own[name].shape == place.shape:
            place.requires_grad_(own[name].requires_grad)


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in module.state_dict().items()}


def bake(module: nn.Module) -> None:
    """Turn every parametrized weight of this module into a plain parameter of the same value."""
    values = {name: getattr(module, name).detach().clone() for name in _parametrizations(module)}
    module.__class__ = written_class(module)
    del module.parametrizations
    for name, value in values.items():
        module.register_parameter(name, nn.Parameter(value))


def restore_class(module: nn.Module) -> None:
    """Give a module read from a file the class that torch makes for its parametrized weights.

    Not by registering them: that would ask each map to take its matrix back, and a map may refuse one whose training
    has diverged. The file may come from a stranger, so the names are checked.
    """
    lists = module._modules.get("parametrizations")
    if lists is None:
        return
    entries = dict(lists.items()) if isinstance(lists, nn.ModuleDict) else {"": lists}
    for name, entry in entries.items():
        taken = hasattr(type(module), name) or name in module._parameters or name.startswith("__")
        if not isinstance(entry, parametrize.ParametrizationList) or not name.isidentifier() or taken:
            raise DataError(
                f"a {type(module).__name__} in a file must have parametrizations of weights; {name!r} is not one. "
                "The file is damaged, or was not written by engram"
            )
    parametrize._inject_new_class(module)
    for name in entries:
        parametrize._inject_property(module, name)
