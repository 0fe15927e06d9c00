"""The layers by the names the papers gave them, torch's own among them: what the command line takes."""

from typing import Any

from torch import nn

from engram.errors import unknown
from engram.nn._gated import GORU, HenaffRNN
from engram.nn._rnn import RNN
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
    "henaff": HenaffRNN,
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}


def make_model(name: str, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any) -> nn.Module:
    """A layer by name.

    >>> make_model("exprnn", 10, 32).source
    'Lezcano-Casado and Martinez-Rubio 2019 (expRNN)'
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name](input_size, hidden_size, num_layers, **options)
