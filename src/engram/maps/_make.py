"""The maps by name."""

import copy
from collections.abc import Callable

import torch

from engram.errors import DTypeError, ShapeError, unknown
from engram.maps._fourier import Fourier
from engram.maps._free import Free
from engram.maps._givens import Givens
from engram.maps._householder import Householder
from engram.maps._map import Map
from engram.maps._orthogonal import Cayley, Exponential
from engram.maps._scaled_cayley import ScaledCayley
from engram.maps._schur import Schur
from engram.maps._stored import Projected, SoftOrthogonal, Stiefel
from engram.maps._svd import SpectralMargin, SpectralReflections

MAPS: dict[str, type[Map]] = {
    "free": Free,
    "exponential": Exponential,
    "cayley": Cayley,
    "scaled-cayley": ScaledCayley,
    "householder": Householder,
    "givens": Givens,
    "fourier": Fourier,
    "schur": Schur,
    "spectral-margin": SpectralMargin,
    "spectral-reflections": SpectralReflections,
    "soft-orthogonal": SoftOrthogonal,
    "projected": Projected,
    "stiefel": Stiefel,
}

MapLike = str | Map | Callable[[int], Map]
"""A name out of MAPS, a map to be copied, or anything that makes one from a size."""


def make_map(map: MapLike, size: int) -> Map:
    """A map of its own for one matrix ``(size, size)``.

    >>> make_map("householder", 8)
    Householder(8, reflections=8)
    """
    if isinstance(map, str) and map not in MAPS:
        raise unknown("map", map, MAPS)
    with torch.device("cpu"):  # the constants of a map have numbers also inside `with torch.device("meta")`
        if isinstance(map, str):
            return MAPS[map](size)
        if isinstance(map, Map):
            made: object = copy.deepcopy(map)  # a map holds a base point: two matrices must not share one
        else:
            made = map(size) if callable(map) else None
    if not isinstance(made, Map):
        raise DTypeError(
            f"map must be one of {', '.join(MAPS)}, an engram.maps.Map, or a function size -> Map; got {map!r}"
        )
    if made.size != size:
        raise ShapeError(f"a map of size {size} is needed here, got {made!r}. Make one of that size, or give its class")
    return made
