"""One line that keeps a weight of any module orthogonal while it is trained."""

import inspect
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.errors import DTypeError, OptionError, ShapeError, unknown
from engram.maps._make import MAPS, MapLike, make_map
from engram.maps._map import Map
from engram.maps._rectangle import Rectangle
from engram.maps._stored import Stiefel

AnyModule = TypeVar("AnyModule", bound=nn.Module)

ORTHOGONAL = ("exponential", "cayley", "scaled-cayley", "householder", "givens", "projected", "stiefel", "fourier")
"""The maps whose matrices are orthogonal (or unitary), by name."""


def orthogonal(module: AnyModule, name: str = "weight", map: MapLike = "exponential", **options: Any) -> AnyModule:
    """Keep a weight of a module orthogonal (unitary, if it is complex) while it is trained; returns the module.

    >>> from torch import nn
    >>> layer = orthogonal(nn.Linear(8, 8), "weight")
    >>> bool(torch.allclose(layer.weight.T @ layer.weight, torch.eye(8), atol=1e-5))
    True

    Works on every module with a matrix: ``orthogonal(nn.Linear(8, 3))``, ``orthogonal(nn.RNN(3, 8), "weight_hh_l0")``,
    ``orthogonal(nn.RNNCell(3, 8), "weight_hh")``, ``orthogonal(engram.nn.RNN(3, 8), "weight_hh_l0")``. A tall weight
    gets orthonormal columns, a wide one orthonormal rows. A weight that is orthogonal already keeps its value; another
    one is replaced by a random orthogonal matrix. From then on ``module.weight`` is computed from free parameters
    (``module.parametrizations.weight.original``), which any optimiser may move.

    Args:
        module: a ``torch.nn.Module``; it is changed in place.
        name: of its parameter, two-dimensional. Default: ``"weight"``.
        map: how the matrix is computed: ``exponential`` (default), ``cayley``, ``scaled-cayley``, ``householder``,
            ``givens``, ``projected``, ``stiefel`` or, for complex weights, ``fourier``; or a :class:`Map`, or a
            function from a size to one.
        options: of the map by that name, such as ``init="henaff"``, ``rebase_every=100`` or ``reflections=4``.

    For ``projected`` and for ``rebase_every`` call :func:`attach` with your optimiser; ``stiefel`` is moved by
    :class:`StiefelStep`. torch's own ``parametrize.remove_parametrizations(module, name)`` ends it. A weight that
    two modules share must be untied first: the second module would be left with the free parameters as its weight.
    """
    weight = _weight(module, name)
    made = make_map(_factory(map, weight.is_complex(), options), max(weight.shape))
    if weight.shape[0] != weight.shape[1]:
        if isinstance(made, Stiefel):
            raise OptionError(
                f"stiefel keeps square matrices orthogonal, {name} is {tuple(weight.shape)}. Use map='projected'"
            )
        made = Rectangle(made, *weight.shape)
    with torch.no_grad():
        kept = weight.detach() if made.has_inverse and made.contains(weight.detach()) else None
        start = made.sample(device=weight.device, dtype=weight.dtype) if kept is None else kept
        if start.is_complex() != weight.is_complex():
            raise DTypeError(
                f"map {map!r} gives {start.dtype} matrices, and {name} is {weight.dtype}. Use a real map for a real "
                "weight, or make the module with dtype=torch.complex64"
            )
        weight.copy_(start)
    parametrize.register_parametrization(module, name, made)
    return module


def _weight(module: nn.Module, name: str) -> Tensor:
    """The parameter, if it is a matrix that stands under no map yet."""
    if not isinstance(module, nn.Module) or not isinstance(name, str):
        got = type(name if isinstance(module, nn.Module) else module).__name__
        raise DTypeError(f"orthogonal takes a torch.nn.Module and the name of its weight, got {got}")
    if parametrize.is_parametrized(module, name):
        raise OptionError(
            f"{name} of {type(module).__name__} is parametrized already. Use "
            f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r}) first"
        )
    weight = getattr(module, name, None)
    if isinstance(weight, Tensor) and not isinstance(weight, nn.Parameter):
        raise OptionError(
            f"{name} of {type(module).__name__} is no parameter: it is computed (a map keeps it already) or a buffer"
        )
    if not isinstance(weight, nn.Parameter):
        names = [own for own, parameter in module.named_parameters(recurse=False) if parameter.dim() == 2]
        if not names:
            raise OptionError(f"{type(module).__name__} has no parameter {name!r}, and no matrix of its own")
        raise unknown(f"matrix of {type(module).__name__}", name, names)
    if weight.dim() != 2 or 0 in weight.shape:
        raise ShapeError(
            f"orthogonal needs a matrix, and {name} of {type(module).__name__} has the shape {tuple(weight.shape)}"
        )
    return weight


def _factory(map: MapLike, complex: bool, options: dict[str, Any]) -> MapLike:
    """The map with its options; for a complex weight its complex form, where it has one."""
    if not isinstance(map, str):
        if options:
            raise OptionError(f"options {', '.join(options)} belong to a map given by name, got map={map!r}")
        return map
    if map not in ORTHOGONAL:
        raise unknown("orthogonal map", map, ORTHOGONAL)
    kind: type[Map] = MAPS[map]
    known = [parameter for parameter in inspect.signature(kind).parameters if parameter != "size"]
    for option in options:
        if option not in known:
            raise unknown(f"option of map {map!r}", option, known)
    return partial(kind, **({"complex": True} if complex and "complex" in known else {}) | options)
