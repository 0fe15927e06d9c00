"""The layers by the names the papers gave them, torch's own among them: what the command line takes."""

import inspect
from typing import Any

from torch import nn

from engram.errors import unknown
from engram.nn._cp_net import CPNet
from engram.nn._gated import GORU, HenaffRNN
from engram.nn._linear import DepthRNN, LinearRNN
from engram.nn._mirnn import MIRNN
from engram.nn._rac import RAC
from engram.nn._recurrent import Recurrent
from engram.nn._rnn import RNN
from engram.nn._s4_block import S4, S4D
from engram.nn._second_order import CPBIRNN, CPRNN, BilinearRNN, SecondOrderRNN
from engram.nn._spectral import (
    EURNN,
    IRNN,
    URNN,
    ExpRNN,
    FullCapacityURNN,
    HouseholderRNN,
    NonNormalRNN,
    OrthInitRNN,
    ScoRNN,
    ScuRNN,
    SpectralMarginRNN,
    SpectralRNN,
)
from engram.nn._tensor_net import TensorNet
from engram.nn._tensor_train import TensorTrainNet

MODELS: dict[str, type[nn.Module]] = {
    "rnn": RNN,
    "irnn": IRNN,
    "orth-init": OrthInitRNN,
    "urnn": URNN,
    "full-capacity": FullCapacityURNN,
    "householder": HouseholderRNN,
    "eurnn": EURNN,
    "scornn": ScoRNN,
    "scurnn": ScuRNN,
    "exprnn": ExpRNN,
    "nnrnn": NonNormalRNN,
    "spectral-margin": SpectralMarginRNN,
    "spectral": SpectralRNN,
    "goru": GORU,
    "rac": RAC,
    "mirnn": MIRNN,
    "2rnn": SecondOrderRNN,
    "birnn": BilinearRNN,
    "cprnn": CPRNN,
    "cpbirnn": CPBIRNN,
    "henaff": HenaffRNN,
    "linear-rnn": LinearRNN,
    "depth-rnn": DepthRNN,
    "s4": S4,
    "s4d": S4D,
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}

NETWORKS: dict[str, type[TensorNet]] = {"tensor-train": TensorTrainNet, "cp-net": CPNet}
"""Whole networks, read-out and all, by the names of the command line: from a fixed number of inputs to scores."""


def make_model(name: str, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> nn.Module:
    """A layer by name.

    >>> make_model("exprnn", 10, 32).source
    'Lezcano-Casado and Martinez-Rubio 2019 (expRNN)'
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name](input_size, hidden_size, num_layers, **options)


def model_options(name: str) -> set[str]:
    """The keyword arguments that a model takes, beside its sizes.

    >>> "rho" in model_options("scornn"), "equal_cores" in model_options("tensor-train")
    (True, True)
    """
    kind: type = {**MODELS, **NETWORKS}[name]
    if issubclass(kind, Recurrent):
        names = {p.name for p in inspect.signature(kind).parameters.values() if p.default is not p.empty}
        return names - {"num_layers", "laws"}
    makers: list[Any] = [cls.__init__ for cls in kind.__mro__ if issubclass(cls, nn.Module) and cls is not nn.Module]
    makers += [kind._make] if issubclass(kind, TensorNet) else []
    names = {p.name for make in makers for p in inspect.signature(make).parameters.values() if p.default is not p.empty}
    return names - {"num_layers"}
