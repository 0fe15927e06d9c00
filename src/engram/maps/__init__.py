"""Matrices with a promise, as parametrizations for ``torch.nn.utils.parametrize``; usable on any module."""

from engram.maps._free import Free
from engram.maps._make import MAPS, MapLike, make_map
from engram.maps._map import Map
from engram.maps._orthogonal import Cayley, Exponential, Orthogonal, orthogonality_error, skew

__all__ = [
    "MAPS",
    "Cayley",
    "Exponential",
    "Free",
    "Map",
    "MapLike",
    "Orthogonal",
    "make_map",
    "orthogonality_error",
    "skew",
]
