"""The named networks of the spectral family: one additive recurrence, each with its map, laws and activation."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Unpack

import torch

from engram.errors import OptionError
from engram.maps import (
    Exponential,
    Fourier,
    Free,
    Givens,
    Householder,
    Map,
    ScaledCayley,
    Schur,
    SpectralMargin,
    SpectralReflections,
    Stiefel,
)
from engram.nn._options import PresetOptions
from engram.nn._rnn import RNN, one_activation
from engram.nn.laws import Constant, Glorot, Identity, Law, Normal, Orthogonal, Uniform

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
        usual = self.defaults.get("activation", "tanh")
        given["activation"] = one_activation(given.get("activation", usual), given.pop("nonlinearity", None), usual)
        if "map" in options:
            raise OptionError(
                f"{type(self).__name__} is an RNN under one map and takes no other, got map={given['map']!r}. "
                "Use engram.nn.RNN(..., map=...)"
            )
        super().__init__(input_size, hidden_size, num_layers, **given)


class IRNN(Preset):
    """A ReLU RNN whose recurrent matrix starts at the identity, then trains freely.

    Bias 0, input weights Gaussian of deviation 0.001. Source: Le et al. 2015.
    """

    matrix, source = Free, "Le et al. 2015 (IRNN)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "relu"}
    laws: ClassVar[dict[str, Law]] = {"weight_hh": Identity(), "weight_ih": Normal(0.001), "bias": Constant(0.0)}


class OrthInitRNN(Preset):
    """An RNN whose recurrent matrix starts orthogonal (``init``: haar, henaff, cayley), then trains freely.

    Source: Kerg et al. 2019 (RNN-orth); the start that they describe, which their released code ignores.
    """

    matrix, source = Free, "RNN-orth (Kerg et al. 2019)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "haar",
        **options: Unpack[PresetOptions],
    ) -> None:
        self.init = init
        super().__init__(input_size, hidden_size, num_layers, **options)

    def _laws(self) -> dict[str, Law]:
        return {**self.laws, "weight_hh": Orthogonal(self.init)}


class ExpRNN(Preset):
    """W_hh = Q exp(A): all of SO(N), by the exponential (expRNN).

    Source: Lezcano-Casado and Martinez-Rubio 2019.

    Args:
        init: the law of the start: henaff, cayley, haar or identity.
        rebase_every: K moves the base point Q every K optimiser steps (dynamic trivialisation; see
            :func:`engram.maps.attach`); None never.
        others: as :class:`RNN`, with modReLU and without bias as in the source.
    """

    matrix, source = Exponential, "Lezcano-Casado and Martinez-Rubio 2019 (expRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "henaff",
        rebase_every: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(Exponential, init=init, rebase_every=rebase_every)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class ScoRNN(Preset):
    """W_hh = Cay(A) D, D of signs with ``rho`` entries -1, default N // 2 (scoRNN).

    Source: Helfrich et al. 2018.
    """

    matrix, source = ScaledCayley, "Helfrich et al. 2018 (scoRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        rho: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(ScaledCayley, rho=rho), **options)


class NonNormalRNN(Preset):
    """W_hh = P (Lambda + T) P^T: spectrum and feed-forward part trained apart (nnRNN).

    Add ``layer.penalty()`` to the loss for the pull of gamma to one and the decay of T. Source: Kerg et al. 2019.

    Args:
        mask, init, rebase_every, gamma, gamma_penalty, decay: see :class:`engram.maps.Schur`.
        others: as :class:`RNN`, with modReLU and without bias as in the source.
    """

    matrix, source = Schur, "Kerg et al. 2019 (nnRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        mask: str = "full",
        init: str = "henaff",
        rebase_every: int | None = None,
        gamma: float | None = None,
        gamma_penalty: float = 0.0,
        decay: float = 0.0,
        **options: Unpack[PresetOptions],
    ) -> None:
        schur = {"mask": mask, "init": init, "rebase_every": rebase_every, "gamma": gamma}
        map = partial(Schur, **schur, gamma_penalty=gamma_penalty, decay=decay)  # type: ignore[arg-type]
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class HouseholderRNN(Preset):
    """W_hh a product of m Householder reflections (oRNN). Source: Mhammedi et al. 2017."""

    matrix, source = Householder, "Mhammedi et al. 2017 (oRNN)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(Householder, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class SpectralMarginRNN(Preset):
    """W_hh = U diag(s) V^T with singular values within ``margin`` of one. Source: Vorontsov et al. 2017."""

    matrix, source = SpectralMargin, "Vorontsov et al. 2017"
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        margin: float = 0.1,
        **options: Unpack[PresetOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(SpectralMargin, margin=margin), **options)


class SpectralRNN(Preset):
    """W_hh = U diag(s) V^T, U and V products of reflections, singular values within ``margin`` of one.

    Source: Zhang et al. 2018.
    """

    matrix, source = SpectralReflections, "Zhang et al. 2018 (spectral RNN)"
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        margin: float = 0.1,
        reflections: tuple[int | None, int | None] = (None, None),
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(SpectralReflections, margin=margin, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


def complex_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """A complex dtype of the precision asked for, at least complex64: of 16 bits there is none to compute with."""
    return torch.promote_types(dtype or torch.get_default_dtype(), torch.complex64)


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


class URNN(UnitaryPreset):
    """W_hh = D3 R2 F^-1 D2 Pi R1 F D1 (uRNN): 7N parameters, and part of U(N) only.

    Start as in the source: modReLU's bias 0, input weights Glorot uniform, a trained initial state of unit length on
    average. Source: Arjovsky et al. 2016.
    """

    matrix, source = Fourier, "Arjovsky et al. 2016 (uRNN)"
    defaults: ClassVar[dict[str, Any]] = {**UnitaryPreset.defaults, "initial_state": "trained"}

    def _laws(self) -> dict[str, Law]:
        start = Uniform(math.sqrt(3 / (2 * self.hidden_size)))
        return {"weight_ih": Glorot(uniform=True), "mod_bias": Constant(0.0), "start": start}


class FullCapacityURNN(UnitaryPreset):
    """W_hh any unitary matrix, moved by multiplicative steps: train it with :class:`engram.maps.StiefelStep`.

    Source: Wisdom et al. 2016, with the generator put right.
    """

    matrix, source = Stiefel, "Wisdom et al. 2016"


class EURNN(Preset):
    """W_hh a product of L layers of rotations (EURNN): capacity tuned by ``layers``, full at L = N.

    Args:
        layers: L, or "fft".
        complex: False for the real form, whose output is the state itself.
        others: as :class:`RNN`. Input weights U(-0.01, 0.01), modReLU's bias -0.01, as in the source's code.

    Source: Jing et al. 2017.
    """

    matrix, source = Givens, "Jing et al. 2017 (EURNN)"
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Uniform(0.01), "mod_bias": Constant(-0.01)}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        layers: int | str = 2,
        complex: bool = True,
        **options: Unpack[PresetOptions],
    ) -> None:
        if options.get("output") is None:
            options["output"] = "concat" if complex else "real"
        if complex:
            options["dtype"] = complex_dtype(options.get("dtype"))
        map = partial(Givens, layers=layers, complex=complex)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class ScuRNN(UnitaryPreset):
    """W_hh = Cay(A) D, A skew-Hermitian, D = diag(e^{i theta}) with learned phases (scuRNN).

    A trained initial state in U(-0.01, 0.01). Source: Maduranga et al. 2019.
    """

    matrix, source = ScaledCayley, "Maduranga et al. 2019 (scuRNN)"
    defaults: ClassVar[dict[str, Any]] = {**UnitaryPreset.defaults, "initial_state": "trained"}
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Glorot(), "start": Uniform(0.01)}

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Unpack[PresetOptions]
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(ScaledCayley, complex=True), **options)
