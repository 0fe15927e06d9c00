"""Matrices that stay orthogonal (or keep another property) during training, for any ``torch.nn.Module``.

One line does it::

    layer = engram.maps.orthogonal(torch.nn.Linear(64, 64), "weight")

Each map is a parametrization for ``torch.nn.utils.parametrize`` that computes a matrix from free parameters;
``engram list maps`` lists them by name, :data:`MAPS` is the table, and engram's layers take a name, ``map="cayley"``.
"""

from engram.maps._after_step import StiefelStep, attach, free_parameters, mapped_weights
from engram.maps._antisymmetric import Antisymmetric
from engram.maps._cayley import cayley_transform
from engram.maps._constrain import orthogonal
from engram.maps._expm import exp_skew
from engram.maps._fourier import Fourier
from engram.maps._free import Free
from engram.maps._givens import Givens
from engram.maps._householder import Householder
from engram.maps._make import MAPS, MapLike, make_map
from engram.maps._map import Map, rounding
from engram.maps._orthogonal import Cayley, Exponential, Orthogonal
from engram.maps._polar import orthogonality_error, polar
from engram.maps._rectangle import Rectangle
from engram.maps._scaled_cayley import ScaledCayley
from engram.maps._schur import Schur
from engram.maps._skew import SKEW_LAWS, delay_matrix, haar, henaff_copy, skew, skew_entries
from engram.maps._stored import Projected, SoftOrthogonal, Stiefel
from engram.maps._svd import SpectralMargin, SpectralReflections
from engram.maps._transforms import (
    leave,
    members,
    observed,
    on_stacks,
    per_member,
    together,
    transformed,
    without_autocast,
)

__all__ = [
    "MAPS",
    "SKEW_LAWS",
    "Antisymmetric",
    "Cayley",
    "Exponential",
    "Fourier",
    "Free",
    "Givens",
    "Householder",
    "Map",
    "MapLike",
    "Orthogonal",
    "Projected",
    "Rectangle",
    "ScaledCayley",
    "Schur",
    "SoftOrthogonal",
    "SpectralMargin",
    "SpectralReflections",
    "Stiefel",
    "StiefelStep",
    "attach",
    "cayley_transform",
    "delay_matrix",
    "exp_skew",
    "free_parameters",
    "haar",
    "henaff_copy",
    "leave",
    "make_map",
    "mapped_weights",
    "members",
    "observed",
    "on_stacks",
    "orthogonal",
    "orthogonality_error",
    "per_member",
    "polar",
    "rounding",
    "skew",
    "skew_entries",
    "together",
    "transformed",
    "without_autocast",
]
