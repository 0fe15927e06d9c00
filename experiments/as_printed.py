"""Networks with the initial weights of their papers, where those of engram's layers are others.

Models for the command line: `engram train copy --model experiments/as_printed.py:GlorotRNN --hidden 128`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from engram.nn import LSTM, RNN, MemRNN, OrthInitRNN, RelLSTM, RelRNN, ScoRNN
from engram.nn.laws import Constant, Glorot, Orthogonal, Uniform


def glorot_normal(weight: Tensor, cell: Any) -> None:
    """N(0, 2/(a + b)) of a matrix (a, b)."""
    nn.init.xavier_normal_(weight)


def glorot_gate(weight: Tensor, cell: Any) -> None:
    """The same of a gate's matrix (H, H + D), which sees state and input side by side."""
    weight.normal_(0, math.sqrt(2 / (2 * cell.hidden_size + cell.input_size)))


class GlorotRNN(RNN):
    """The RNN of Kerg et al. 2019, Tables A.1, A.2 and A.4: modReLU, all matrices Glorot normal."""

    laws = {"weight_hh": glorot_normal, "weight_ih": Glorot()}  # noqa: RUF012

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__(input_size, hidden_size, num_layers, activation="modrelu")


class GlorotLSTM(LSTM):
    """The LSTM of the same tables: every gate Glorot normal."""

    laws = {"weight_hh": glorot_gate, "weight_ih": glorot_gate}  # noqa: RUF012

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__(input_size, hidden_size, num_layers)


class RandomStartCell(ScoRNN.cell):
    """A scoRNN whose state before the first step is sampled for every batch, U(-s, s) with s = sqrt(3/H)."""

    def initial_state(self, batch: int) -> Tensor:
        start = torch.empty(
            batch, self.hidden_size, dtype=self.reference_weight.dtype, device=self.reference_weight.device
        )
        return start.uniform_(-math.sqrt(3 / self.hidden_size), math.sqrt(3 / self.hidden_size))


class ZivScoRNN(ScoRNN):
    """The scoRNN of Ziv 2019 with the initial weights of his program: W_ih in U(-0.01, 0.01), modReLU's bias 0."""

    cell = RandomStartCell
    laws = {"weight_ih": Uniform(0.01), "mod_bias": Constant(0.0)}  # noqa: RUF012

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__(input_size, hidden_size, num_layers)


def glorot_vector(weight: Tensor, cell: Any) -> None:
    """N(0, 2/(1 + n)) of a vector (n), which the authors' program has as a matrix of one row."""
    weight.normal_(0, math.sqrt(2 / (1 + len(weight))))


START_OF_ATTENTION = {"weight_hh": Orthogonal("henaff"), "weight_ih": glorot_normal, "weight_align": glorot_vector}
"""As in the program of Kerg et al. 2020 for copying; its W_q and W_k start as engram's by default."""


class HenaffRelRNN(RelRNN):
    """The RelRNN of that program: W_hh starts orthogonal, and ``combine`` is a mean."""

    laws = START_OF_ATTENTION

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, nu: int = 10, rho: int = 10,
        screen: str = "relevance", combine: str = "mean", activation: str = "tanh",
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, nu=nu, rho=rho, screen=screen, combine=combine, activation=activation
        )


def kaiming_normal(weight: Tensor, cell: Any) -> None:
    """N(0, 2/D) of a matrix (H, D)."""
    nn.init.kaiming_normal_(weight)


def linear_bias(weight: Tensor, cell: Any) -> None:
    """U(-1/sqrt(D), 1/sqrt(D)), as of torch.nn.Linear(D, H)."""
    weight.uniform_(-1 / math.sqrt(cell.input_size), 1 / math.sqrt(cell.input_size))


class KaimingRelRNN(HenaffRelRNN):
    """The RelRNN of that program on denoise, where W_ih starts Kaiming normal and b as torch's linear layers."""

    laws = {**START_OF_ATTENTION, "weight_ih": kaiming_normal, "bias": linear_bias}  # noqa: RUF012


class KaimingOrthRNN(OrthInitRNN):
    """The orth-RNN of that program on denoise: W_hh Henaff's orthogonal matrix, W_ih and b as of KaimingRelRNN."""

    laws = {"weight_ih": kaiming_normal, "bias": linear_bias}  # noqa: RUF012

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__(input_size, hidden_size, num_layers, init="henaff")


class HenaffMemRNN(MemRNN):
    """The MemRNN of that program: W_hh starts orthogonal, and ``combine`` is a mean."""

    laws = START_OF_ATTENTION

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, combine: str = "mean", activation: str = "tanh"
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, combine=combine, activation=activation)


class GlorotRelLSTM(RelLSTM):
    """A RelLSTM that starts as that program's LSTM and RelRNN do: gates and v Glorot normal; ``combine`` is a mean."""

    laws = {"weight_hh": glorot_gate, "weight_ih": glorot_gate, "weight_align": glorot_vector}  # noqa: RUF012

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, nu: int = 10, rho: int = 10,
        screen: str = "relevance", combine: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, nu=nu, rho=rho, screen=screen, combine=combine)
