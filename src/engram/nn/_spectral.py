"""The named networks of the spectral family: one additive recurrence, each with its map, start and activation."""

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from engram.errors import OptionError
from engram.maps import (
    Exponential,
    Fourier,
    Free,
    Givens,
    Householder,
    MapLike,
    ScaledCayley,
    Schur,
    SpectralMargin,
    SpectralReflections,
    Stiefel,
)
from engram.nn._rnn import RNN


def _complex(dtype: torch.dtype | None) -> torch.dtype:
    """A complex dtype of the precision asked for, at least complex64: of 16 bits there is none to compute with."""
    return torch.promote_types(dtype or torch.get_default_dtype(), torch.complex64)


@torch.no_grad()
def _uniform(tensor: Tensor | None, bound: float) -> None:
    """Real and imaginary parts uniform in (-bound, bound)."""
    if tensor is not None:
        (torch.view_as_real(tensor) if tensor.is_complex() else tensor).uniform_(-bound, bound)


class _Preset(RNN):
    """An RNN with other options than the usual unless told otherwise, and a map that makes it what it is."""

    usual: ClassVar[dict[str, Any]] = {"activation": "modrelu", "bias": False}

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_layers, **(self.usual | options))

    def _mapped(self, map: MapLike, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the map of this network, which cannot be another."""
        if "map" in options:
            raise OptionError(
                f"{type(self).__name__} is an RNN under one map and takes no other, got map={options['map']!r}. "
                "Use engram.nn.RNN(..., map=...)"
            )
        return {"map": map, **options}

    @torch.no_grad()
    def _begin(self, cell: Any) -> None:
        """Input weights Glorot normal (spec/spectral.md 3.3)."""
        deviation = math.sqrt(2 / (cell.input_size + cell.hidden_size))
        cell.weight_ih.normal_(0, deviation)


class IRNN(_Preset):
    """A ReLU RNN whose recurrent matrix starts at the identity, then trains freely.

    Bias 0, input weights Gaussian of deviation 0.001. Source: Le et al. 2015, spec/spectral.md 4.2.
    """

    matrix, source = Free, "Le et al. 2015 (IRNN)"
    usual: ClassVar[dict[str, Any]] = {"activation": "relu"}

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_layers, **self._mapped("free", options))

    @torch.no_grad()
    def _begin(self, cell: Any) -> None:
        cell.weight_hh.copy_(torch.eye(cell.hidden_size))
        cell.weight_ih.normal_(0, 0.001)
        if cell.bias is not None:
            cell.bias.zero_()


class OrthInitRNN(_Preset):
    """An RNN whose recurrent matrix starts orthogonal (``init``: haar, henaff, cayley), then trains freely.

    Source: spec/spectral.md 4.3 (RNN-orth); the documented start, which the released code ignores.
    """

    matrix, source = Free, "RNN-orth (Kerg et al. 2019)"
    usual: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, init: str = "haar", **options: Any
    ) -> None:
        self.init = init
        super().__init__(input_size, hidden_size, num_layers, **self._mapped("free", options))

    @torch.no_grad()
    def _begin(self, cell: Any) -> None:
        super()._begin(cell)
        start = Exponential(cell.hidden_size, init=self.init).sample(dtype=cell.weight_hh.dtype)
        cell.weight_hh.copy_(start)


class ExpRNN(_Preset):
    """W_hh = Q exp(A): all of SO(N), by the exponential (expRNN).

    Source: Lezcano-Casado and Martinez-Rubio 2019, spec/spectral.md 4.12.

    Args:
        init: the law of the start: henaff, cayley, haar or identity.
        rebase_every: K moves the base point Q every K optimiser steps (dynamic trivialisation; see
            :func:`engram.maps.attach`); None never.
        others: as :class:`RNN`, with modReLU and without bias as in the source.
    """

    matrix = Exponential
    source = "Lezcano-Casado and Martinez-Rubio 2019 (expRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "henaff",
        rebase_every: int | None = None,
        **options: Any,
    ) -> None:
        map = partial(Exponential, init=init, rebase_every=rebase_every)
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class ScoRNN(_Preset):
    """W_hh = Cay(A) D, D of signs with rho entries -1 (scoRNN).

    Source: Helfrich et al. 2018, spec/spectral.md 4.10. ``rho`` is N // 2 unless given.
    """

    matrix = ScaledCayley
    source = "Helfrich et al. 2018 (scoRNN)"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, rho: int | None = None, **options: Any
    ) -> None:
        map = partial(ScaledCayley, rho=rho)
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class NonNormalRNN(_Preset):
    """W_hh = P (Lambda + T) P^T: spectrum and feed-forward part trained apart (nnRNN).

    Add ``layer.penalty()`` to the loss for the pull of gamma to one and the decay of T.
    Source: Kerg et al. 2019, spec/spectral.md 4.13.

    Args:
        mask, init, rebase_every, gamma, gamma_penalty, decay: see :class:`engram.maps.Schur`.
        others: as :class:`RNN`, with modReLU and without bias as in the source.
    """

    matrix = Schur
    source = "Kerg et al. 2019 (nnRNN)"

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
        **options: Any,
    ) -> None:
        map = partial(
            Schur,
            mask=mask,
            init=init,
            rebase_every=rebase_every,
            gamma=gamma,
            gamma_penalty=gamma_penalty,
            decay=decay,
        )
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class HouseholderRNN(_Preset):
    """W_hh a product of m Householder reflections (oRNN). Source: Mhammedi et al. 2017, spec/spectral.md 4.7."""

    matrix = Householder
    source = "Mhammedi et al. 2017 (oRNN)"
    usual: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, reflections: int | None = None, **options: Any
    ) -> None:
        map = partial(Householder, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class SpectralMarginRNN(_Preset):
    """W_hh = U diag(s) V^T with singular values within ``margin`` of one.

    Source: Vorontsov et al. 2017, spec/spectral.md 4.9.
    """

    matrix = SpectralMargin
    source = "Vorontsov et al. 2017"
    usual: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, margin: float = 0.1, **options: Any
    ) -> None:
        map = partial(SpectralMargin, margin=margin)
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class SpectralRNN(_Preset):
    """W_hh = U diag(s) V^T, U and V products of reflections, singular values within ``margin`` of one.

    Source: Zhang et al. 2018, spec/spectral.md 4.15.
    """

    matrix = SpectralReflections
    source = "Zhang et al. 2018 (spectral RNN)"
    usual: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        margin: float = 0.1,
        reflections: tuple[int | None, int | None] = (None, None),
        **options: Any,
    ) -> None:
        map = partial(SpectralReflections, margin=margin, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(map, options))


class _UnitaryRNN(_Preset):
    """What the complex networks share: a complex dtype, modReLU, no bias, real output [Re h; Im h] of size 2H."""

    usual: ClassVar[dict[str, Any]] = {"activation": "modrelu", "bias": False, "output": "concat"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dtype=_complex(dtype), **options)


class URNN(_UnitaryRNN):
    """W_hh = D3 R2 F^-1 D2 Pi R1 F D1 (uRNN): 7N parameters, and part of U(N) only.

    Start as in the source: modReLU's bias 0, input weights Glorot uniform, a trained initial state of unit length on
    average. Source: Arjovsky et al. 2016, spec/spectral.md 4.4.
    """

    matrix = Fourier
    source = "Arjovsky et al. 2016 (uRNN)"

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        options = {"initial_state": "trained"} | options
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(Fourier, options))

    def _begin(self, cell: Any) -> None:
        _uniform(cell.weight_ih, math.sqrt(3 / (cell.input_size + cell.hidden_size)))
        _uniform(cell.mod_bias, 0.0)
        _uniform(cell.start, math.sqrt(3 / (2 * cell.hidden_size)))


class FullCapacityURNN(_UnitaryRNN):
    """W_hh any unitary matrix, moved by multiplicative steps: train it with :class:`engram.maps.StiefelStep`.

    Source: Wisdom et al. 2016, spec/spectral.md 4.5, with the generator put right.
    """

    matrix = Stiefel
    source = "Wisdom et al. 2016"

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_layers, **self._mapped(Stiefel, options))


class EURNN(_UnitaryRNN):
    """W_hh a product of L layers of rotations (EURNN): capacity tuned by ``layers``, full at L = N.

    Args:
        layers: L, or "fft".
        complex: False for the real form, whose output is the state itself.
        others: as :class:`RNN`. Input weights U(-0.01, 0.01), modReLU's bias -0.01, as in the source's code.

    Source: Jing et al. 2017, spec/spectral.md 4.8.
    """

    matrix = Givens
    source = "Jing et al. 2017 (EURNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        layers: int | str = 2,
        complex: bool = True,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        map = partial(Givens, layers=layers, complex=complex)
        kind = _complex(dtype) if complex else dtype
        options = ({} if complex else {"output": "real"}) | options
        _Preset.__init__(self, input_size, hidden_size, num_layers, dtype=kind, **self._mapped(map, options))

    def _begin(self, cell: Any) -> None:
        _uniform(cell.weight_ih, 0.01)
        if cell.mod_bias is not None:
            nn.init.constant_(cell.mod_bias, -0.01)


class ScuRNN(_UnitaryRNN):
    """W_hh = Cay(A) D, A skew-Hermitian, D = diag(e^{i theta}) with learned phases (scuRNN).

    A trained initial state in U(-0.01, 0.01). Source: Maduranga et al. 2019, spec/spectral.md 4.11.
    """

    matrix = ScaledCayley
    source = "Maduranga et al. 2019 (scuRNN)"

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        options = {"initial_state": "trained"} | options
        super().__init__(
            input_size, hidden_size, num_layers, **self._mapped(partial(ScaledCayley, complex=True), options)
        )

    def _begin(self, cell: Any) -> None:
        super()._begin(cell)
        _uniform(cell.start, 0.01)
