"""One layer of every kind of recurrence, own cells among them: for torch's transforms and exporters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engram.nn import (
    CPBIRNN,
    CPRNN,
    EURNN,
    GORU,
    GRU,
    LEM,
    LSTM,
    MIRNN,
    RAC,
    RNN,
    S4,
    S4D,
    SAB,
    AntisymmetricRNN,
    Attentive,
    BilinearRNN,
    Cell,
    CoRNN,
    DepthRNN,
    HDetachLSTM,
    HenaffRNN,
    LinearRNN,
    MemLSTM,
    MemRNN,
    MinGRU,
    MinLSTM,
    NonNormalRNN,
    Recurrent,
    RelCell,
    RelLSTM,
    RelRNN,
    SecondOrderRNN,
    SpectralRNN,
)
from engram.state import Field

FEATURES, HIDDEN = 3, 4


class LeakyCell(Cell):
    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LeakyRNN(Recurrent):
    cell = LeakyCell


class LeakyRelCell(RelCell, LeakyCell):
    equation = "as LeakyCell, with attention over nu + rho states in place of h_{t-1}"


class LeakyRelRNN(Attentive):
    cell = LeakyRelCell


class Aged(NamedTuple):
    h: Any
    age: Any


class AgedCell(Cell):
    equation = "h_t = tanh(W_hh h_{t-1} + W_ih x_t + b) / (1 + t): the number of the step is an integer field"

    def fields(self) -> Aged:
        return Aged(Field(self.hidden_size), Field(dtype=torch.int64))

    def step(self, drive: Tensor, state: Aged) -> Aged:
        new = torch.tanh(drive + state.h @ self.weight_hh.mT) / (1 + state.age[:, None])
        return Aged(new, state.age + 1)


class AgedRNN(Recurrent):
    cell = AgedCell


class MeetingCell(Cell):
    equation = "h_t = tanh(W^T W h_{t-1} + W_ih x_t + b) - mean of h_{t-1} over the batch: rows are mixed, no plan"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        turned = (state @ self.weight_hh.mT) @ self.weight_hh  # a weight beside its transpose
        return torch.tanh(drive + turned) - 0.1 * state.mean(0, keepdim=True)


class MeetingRNN(Recurrent):
    cell = MeetingCell


def _of(kind: Any, *args: Any, **options: Any) -> Callable[..., Recurrent]:
    return lambda **more: kind(FEATURES, HIDDEN, *args, **options, **more)


REAL: dict[str, Callable[..., Recurrent]] = {
    "free": _of(RNN),
    "exponential": _of(RNN, map="exponential"),
    "cayley": _of(RNN, map="cayley"),
    "both ways, batch first": _of(RNN, bidirectional=True, batch_first=True),
    "two layers": _of(RNN, 2, activation="relu"),
    "modrelu": _of(RNN, activation="modrelu"),
    "modrelu in depth": _of(RNN, activation="modrelu", activation_in="depth"),
    "trained start": _of(RNN, initial_state="trained"),
    "last step": _of(RNN, return_sequence=False),
    "non-normal": _of(NonNormalRNN),
    "spectral": _of(SpectralRNN),
    "goru": _of(GORU),
    "mirnn": _of(MIRNN),
    "rac": _of(RAC),
    "second order": _of(SecondOrderRNN),
    "bilinear": _of(BilinearRNN),
    "cprnn": _of(CPRNN, rank=5),
    "cpbirnn": _of(CPBIRNN, rank=5),
    "henaff": _of(HenaffRNN),
    "linear": _of(LinearRNN),
    "depth": _of(DepthRNN),
    "lstm": _of(LSTM),
    "lstm, projected, both ways": _of(LSTM, 2, bidirectional=True, proj_size=2),
    "lstm, normalised": _of(LSTM, layer_norm=True),
    "gru": _of(GRU),
    "gru, normalised": _of(GRU, layer_norm=True),
    "antisymmetric": _of(AntisymmetricRNN),
    "antisymmetric, gated": _of(AntisymmetricRNN, gated=True),
    "cornn": _of(CoRNN),
    "lem": _of(LEM),
    "mingru": _of(MinGRU),
    "mingru, in blocks": _of(MinGRU, parallel=True),
    "minlstm": _of(MinLSTM),
    "h-detach, evaluated": lambda **more: HDetachLSTM(FEATURES, HIDDEN, **more).eval(),  # in training it is random
    "relrnn": _of(RelRNN, nu=3, rho=2),
    "relrnn, options": _of(RelRNN, 2, nu=2, rho=3, map="cayley", align="dot", heads=2, combine="concat", readout="s"),
    "rellstm": _of(RelLSTM, nu=2, rho=1, align="uniform", combine="mean", bidirectional=True),
    "own cell": _of(LeakyRNN),
    "own cell with attention": _of(LeakyRelRNN, nu=2, rho=2, screen="learned"),
    "own cell under a map": _of(LeakyRNN, map="cayley"),
    "own cell without a plan": _of(MeetingRNN),
    "own cell with an integer": _of(AgedRNN),
}
SYSTEMS: dict[str, Callable[..., Recurrent]] = {
    "s4": _of(S4, 2, state_size=4),
    "s4d": _of(S4D, 2, state_size=4),
    "s4d, two-sided": _of(S4D, state_size=4, two_sided=True, bidirectional=True),
}
COMPLEX: dict[str, Callable[..., Recurrent]] = {
    "complex": lambda **o: RNN(FEATURES, HIDDEN, **{**o, "dtype": torch.complex128}),
    "eurnn": lambda **o: EURNN(FEATURES, HIDDEN, **{**o, "dtype": torch.complex128}),
}
GROWING: dict[str, Callable[..., Recurrent]] = {
    "memrnn": _of(MemRNN),
    "memlstm": _of(MemLSTM, 2, align="dot", heads=2, combine="concat"),
    "sab": _of(SAB, k=3, attn_every=1, trunc=0),  # without a cut: the gradient is that of finite differences
    "sab, both ways": _of(SAB, 2, k=2, bidirectional=True, trunc=0),
}
"""Layers with a memory of all steps, which torch's scan, and so export, does not take."""
EVERY = REAL | SYSTEMS | COMPLEX
KINDS = {"free", "cayley", "modrelu", "goru", "rac", "cprnn", "lstm", "mingru", "relrnn", "own cell without a plan"}
"""One of each kind of recurrence: sums, maps, gates, products, scans, and a cell that has no plan."""


def sequence(layer: Any, steps: int, batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random numbers in the form that the layer takes."""
    lead = (batch, steps) if layer.batch_first else (steps, batch)
    return torch.randn(*lead, FEATURES, dtype=dtype)


def tensors(value: Any) -> list[Tensor]:
    """The tensors of what a layer returns."""
    return [value] if isinstance(value, Tensor) else [t for part in value for t in tensors(part)]
