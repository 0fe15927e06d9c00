"""Recurrent layers with the calling convention of ``torch.nn.LSTM``."""

from engram.nn._cell import Cell
from engram.nn._contract import ContractError, check_contract
from engram.nn._doctor import Diagnosis, doctor
from engram.nn._explicit import explicit_adding, explicit_copy
from engram.nn._gated import GORU, GORUCell, HenaffCell, HenaffRNN
from engram.nn._models import MODELS, make_model
from engram.nn._recurrent import Recurrent
from engram.nn._rnn import RNN, RNNCell
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

__all__ = [
    "EURNN",
    "GORU",
    "IRNN",
    "MODELS",
    "RNN",
    "URNN",
    "Cell",
    "ContractError",
    "Diagnosis",
    "ExpRNN",
    "FullCapacityURNN",
    "GORUCell",
    "HenaffCell",
    "HenaffRNN",
    "HouseholderRNN",
    "NonNormalRNN",
    "OrthInitRNN",
    "RNNCell",
    "Recurrent",
    "ScoRNN",
    "ScuRNN",
    "SpectralMarginRNN",
    "SpectralRNN",
    "check_contract",
    "doctor",
    "explicit_adding",
    "explicit_copy",
    "make_model",
]
