"""The laws of initial weights: what fills a weight in place, told the cell that has it for its sizes.

A cell declares each parameter with its law (:meth:`BareCell.declare`), and a layer may give its cells other ones. They
are objects rather than functions, so that a layer which holds them can be saved.
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
    """The same number everywhere."""

    value: float

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.fill_(self.value)


@dataclass(frozen=True)
class Uniform:
    """U(-bound, bound), real and imaginary parts alike; default: 1/sqrt(H), the law of torch.nn.RNN."""

    bound: float | None = None

    def __call__(self, weight: Tensor, cell: Any) -> None:
        bound = 1 / math.sqrt(cell.hidden_size) if self.bound is None else self.bound
        (torch.view_as_real(weight) if weight.is_complex() else weight).uniform_(-bound, bound)


@dataclass(frozen=True)
class Normal:
    """N(0, deviation^2)."""

    deviation: float

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.normal_(0, self.deviation)


@dataclass(frozen=True)
class Glorot:
    """A variance of 2/(D + H), normal; or uniform over real and imaginary parts alike (Glorot and Bengio 2010)."""

    uniform: bool = False

    def __call__(self, weight: Tensor, cell: Any) -> None:
        size = cell.input_size + cell.hidden_size
        (Uniform(math.sqrt(3 / size)) if self.uniform else Normal(math.sqrt(2 / size)))(weight, cell)


@dataclass(frozen=True)
class Xavier:
    """U(-s, s) of a matrix (a, b), s = sqrt(6/(a + b)): the one of torch.nn.init."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        nn.init.xavier_uniform_(weight)


@dataclass(frozen=True)
class Identity:
    """The identity matrix."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.copy_(torch.eye(len(weight)))


@dataclass(frozen=True)
class Orthogonal:
    """An orthogonal (or unitary) matrix: uniform among all, or by an ``init`` of :class:`engram.maps.Exponential`."""

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
