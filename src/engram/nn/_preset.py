"""What the named networks of the spectral family share: an RNN under one map, with defaults of its own."""

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import torch

from engram.errors import OptionError
from engram.maps import Map
from engram.nn._options import PresetOptions
from engram.nn._rnn import RNN, one_activation
from engram.nn.laws import Glorot, Law

MODRELU: dict[str, Any] = {"activation": "modrelu", "bias": False}
"""As in the sources: modReLU has a bias of its own."""


class Preset(RNN):
    """An RNN under one map, with defaults of its own; input weights are Glorot normal by default."""

    defaults: ClassVar[dict[str, Any]] = MODRELU
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Glorot()}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        _map: Callable[[int], Map] | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        given: dict[str, Any] = {"map": _map or self.matrix, **self.defaults, **options}
        default = self.defaults.get("activation", "tanh")
        activation, nonlinearity = given.get("activation", default), given.pop("nonlinearity", None)
        given["activation"] = one_activation(activation, nonlinearity, default)
        if "map" in options:
            raise OptionError(
                f"{type(self).__name__} is an RNN under one map and takes no other, got map={given['map']!r}. "
                "Use engram.nn.RNN(..., map=...)"
            )
        super().__init__(input_size, hidden_size, num_layers, **given)


class UnitaryPreset(Preset):
    """What the complex networks share: a complex dtype, modReLU, no bias, real output [Re h; Im h] of size 2H."""

    defaults: ClassVar[dict[str, Any]] = {**MODRELU, "output": "concat"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        _map: Callable[[int], Map] | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        options["dtype"] = complex_dtype(options.get("dtype"))
        super().__init__(input_size, hidden_size, num_layers, _map=_map, **options)


def complex_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """A complex dtype of the precision asked for, at least complex64: of 16 bits there is none to compute with."""
    return torch.promote_types(dtype or torch.get_default_dtype(), torch.complex64)
