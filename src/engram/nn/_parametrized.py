"""Two things torch leaves out for modules with parametrized weights: pickling them, and baking the weights in.

torch gives such a module a class made at run time. Pickle cannot find that class again; and deep copies share it,
so that torch's own ``remove_parametrizations`` on a copy takes the weight away from the original too.
"""

from typing import Any, TypeVar, cast

from torch import nn
from torch.nn.utils import parametrize

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def _plain_class(module: nn.Module) -> type[nn.Module]:
    return type(module).__bases__[0]


def _parametrizations(module: nn.Module) -> dict[str, nn.Module]:
    lists = module.parametrizations
    return dict(lists.items()) if isinstance(lists, nn.ModuleDict) else {}


def _other_modules(module: nn.Module) -> dict[str, nn.Module | None]:
    return {name: child for name, child in module._modules.items() if name != "parametrizations"}


def with_built_weights(module: AnyModule) -> AnyModule:
    """A view of a module in which every parametrized weight is a plain tensor, built now and still in the graph.

    For a loop that reads the weight at every step: through the view it is built once a call. (torch's own
    ``parametrize.cached`` is one switch for the whole process, unsafe with threads and with recomputation.)
    """
    if not parametrize.is_parametrized(module):
        return module
    view = _plain_class(module).__new__(_plain_class(module))
    view.__dict__.update(module.__dict__)
    view.__dict__.update({name: getattr(module, name) for name in _parametrizations(module)})
    view.__dict__["_modules"] = _other_modules(module)
    return cast(AnyModule, view)


def bake(module: nn.Module) -> None:
    """Turn every parametrized weight of this module into a plain parameter of the same value."""
    values = {name: getattr(module, name).detach().clone() for name in _parametrizations(module)}
    module.__class__ = _plain_class(module)
    del module.parametrizations
    for name, value in values.items():
        module.register_parameter(name, nn.Parameter(value))


def reduce_parametrized(module: nn.Module) -> tuple[Any, ...]:
    """What ``module.__reduce_ex__`` returns: the plain class, its attributes, the state of each parametrization."""
    attributes = dict(module.__dict__)
    attributes["_modules"] = _other_modules(module)
    weights = {
        name: (list(maps.children()), maps.state_dict(), [p.requires_grad for p in maps.parameters()])
        for name, maps in _parametrizations(module).items()
    }
    return rebuild, (_plain_class(module), attributes, weights)


def rebuild(plain: type[nn.Module], attributes: dict[str, Any], weights: dict[str, Any]) -> nn.Module:
    """The inverse of :func:`reduce_parametrized`, called by pickle: the parametrizations are registered anew."""
    module = plain.__new__(plain)
    module.__dict__.update(attributes)
    for name, (maps, state, trainable) in weights.items():
        # Any matrix that the map takes will do: the state below overwrites what is made of it.
        module.register_parameter(name, nn.Parameter(maps[0](state["original"]).detach()))
        for map in maps:
            parametrize.register_parametrization(module, name, map, unsafe=True)
        entry = _parametrizations(module)[name]
        entry.load_state_dict(state)
        for parameter, trained in zip(entry.parameters(), trainable, strict=True):
            parameter.requires_grad_(trained)
    return module
