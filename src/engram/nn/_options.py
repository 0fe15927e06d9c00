"""The keyword arguments that layers have in common, spelled out once for editors, ``help()`` and the command line."""

import inspect
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypedDict

import torch

from engram.maps import MapLike
from engram.nn.laws import Law


class OwnOptions(TypedDict, total=False):
    """What every layer takes and torch's have not; see :class:`engram.nn.Recurrent`."""

    output_all_layers: bool
    return_sequence: bool
    checkpoint_every: int | None
    check_finite: bool
    laws: Mapping[str, Law]


class OtherOptions(OwnOptions, total=False):
    """The same, with the place and the dtype of the weights."""

    device: torch.device | str | None
    dtype: torch.dtype | None


class CommonOptions(OtherOptions, total=False):
    """What every layer takes but for a bias, of which some have another default."""

    batch_first: bool
    dropout: float
    bidirectional: bool


class BlockOptions(CommonOptions, total=False):
    """What a layer takes whose cells have a bias and start at zero."""

    bias: bool


class CellOptions(CommonOptions, total=False):
    """What every layer takes whose cells have a bias and an initial state."""

    bias: bool
    initial_state: str


class MatrixOptions(CellOptions, total=False):
    """What a layer with a recurrent matrix takes."""

    map: MapLike


class PresetOptions(CellOptions, total=False):
    """What an :class:`engram.nn.RNN` takes whose map is chosen."""

    activation: str
    nonlinearity: str | None
    activation_in: str
    output: str | None


class LinearOptions(MatrixOptions, total=False):
    """What an :class:`engram.nn.RNN` takes whose recurrence is linear."""

    activation: str
    nonlinearity: str | None
    output: str | None


class DepthOptions(LinearOptions, total=False):
    """What :class:`engram.nn.DepthRNN` takes."""

    init: str
    activation_in: str


class ProductOptions(CellOptions, total=False):
    """What :class:`engram.nn.BilinearRNN` takes."""

    activation: str
    residual: bool


def full_signature(
    makers: list[Any], defaults: Mapping[str, Any] = MappingProxyType({}), without: Collection[str] = ()
) -> inspect.Signature:
    """The parameters of several ``__init__``, each of which hands its ``**options`` on to the next.

    A name that an earlier one spells out is its own, with its default; ``defaults`` override those of the later ones,
    and names ``without`` are left out. Keywords follow what may be given by place.
    """
    found: dict[str, inspect.Parameter] = {}
    for parameter in _parameters(makers):
        default = defaults.get(parameter.name, parameter.default)
        if parameter.name not in without:
            found.setdefault(parameter.name, parameter.replace(default=default))
    placed = [p for p in found.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p for p in found.values() if p.kind is p.KEYWORD_ONLY]
    return inspect.Signature([*placed, *named])


def _parameters(makers: list[Any]) -> Iterator[inspect.Parameter]:
    for place, maker in enumerate(makers):
        _, *parameters = inspect.signature(maker).parameters.values()  # without self
        rest = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        for parameter in parameters:
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and place:
                parameter = parameter.replace(kind=parameter.KEYWORD_ONLY)
            if parameter not in rest and not parameter.name.startswith("_"):
                yield parameter
        if not rest:
            return
