"""Initial distributions of weights.

A law is called as ``law(weight, cell)`` and fills the weight in place; it may read the sizes of the cell. A cell
declares each parameter with its law (:meth:`BareCell.declare`), and a layer takes others:
``RNN(3, 8, laws={"bias": engram.nn.laws.Constant(0.0)})``. Laws are objects and not functions, so that a layer which
holds them can be saved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.maps import Exponential, haar

Law = Callable[[Tensor, Any], object]
"""``law(weight, cell)``."""


@dataclass(frozen=True)
class Constant:
    """The same number everywhere.

    Args:
        value (float): the number.
    """

    value: float

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.fill_(self.value)


@dataclass(frozen=True)
class Uniform:
    """U(-bound, bound), real and imaginary parts alike.

    Args:
        bound (float or None): Default: None, which is 1/sqrt(H), as in torch.nn.RNN.
    """

    bound: float | None = None

    def __call__(self, weight: Tensor, cell: Any) -> None:
        bound = 1 / math.sqrt(cell.hidden_size) if self.bound is None else self.bound
        (torch.view_as_real(weight) if weight.is_complex() else weight).uniform_(-bound, bound)


@dataclass(frozen=True)
class Normal:
    """N(0, deviation^2).

    Args:
        deviation (float): the standard deviation.
    """

    deviation: float

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.normal_(0, self.deviation)


@dataclass(frozen=True)
class Glorot:
    """A variance of 2/(D + H) (Glorot and Bengio 2010).

    Args:
        uniform (bool): uniform, real and imaginary parts alike, in place of normal. Default: False.
    """

    uniform: bool = False

    def __call__(self, weight: Tensor, cell: Any) -> None:
        size = cell.input_size + cell.hidden_size
        (Uniform(math.sqrt(3 / size)) if self.uniform else Normal(math.sqrt(2 / size)))(weight, cell)


@dataclass(frozen=True)
class Xavier:
    """U(-s, s) of a matrix (a, b), s = sqrt(6/(a + b)), as torch.nn.init.xavier_uniform_."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        nn.init.xavier_uniform_(weight)


@dataclass(frozen=True)
class Identity:
    """The identity matrix."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.copy_(torch.eye(len(weight)))


@dataclass(frozen=True)
class Orthogonal:
    """A random orthogonal (or unitary) matrix.

    Args:
        init (str): ``haar``, ``henaff``, ``cayley`` or ``identity``, as in :class:`engram.maps.Exponential`. Default:
            ``""``, uniform over all orthogonal matrices, of either determinant.
    """

    init: str = ""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        if self.init:
            weight.copy_(Exponential(len(weight), init=self.init).sample(dtype=weight.dtype))
        else:
            weight.copy_(haar(len(weight), complex=weight.is_complex()))


@dataclass(frozen=True)
class Chrono:
    """Biases of gates for memories of up to ``longest`` steps: log U(1, longest - 1) for the gate that keeps.

    A unit that keeps with sigmoid(b) forgets within about 1 + exp(b) steps. ``keep`` and ``take`` are the numbers of
    the gates that keep the old and take in the new, each a block of H biases; the one that takes starts at the negative
    of the one that keeps. All other blocks follow ``rest`` (Tallec and Ollivier 2018).
    """

    longest: int
    keep: int
    take: int | None = None
    rest: Law = Uniform()

    def __call__(self, weight: Tensor, cell: Any) -> None:
        self.rest(weight, cell)
        blocks = weight.view(-1, cell.hidden_size)
        blocks[self.keep].uniform_(1, self.longest - 1).log_()
        if self.take is not None:
            blocks[self.take] = -blocks[self.keep]


@dataclass(frozen=True)
class ZeroBlocks:
    """Zero in some of the blocks of H biases, ``rest`` in the others: where a second bias is added to the first."""

    blocks: tuple[int, ...]
    rest: Law = Uniform()

    def __call__(self, weight: Tensor, cell: Any) -> None:
        self.rest(weight, cell)
        weight.view(-1, cell.hidden_size)[list(self.blocks)] = 0
