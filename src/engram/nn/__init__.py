"""Recurrent layers with the calling convention of ``torch.nn.LSTM``."""

from engram.nn._cell import Cell
from engram.nn._contract import ContractError, check_contract
from engram.nn._doctor import Diagnosis, doctor
from engram.nn._recurrent import Recurrent
from engram.nn._rnn import RNN, RNNCell

__all__ = ["RNN", "Cell", "ContractError", "Diagnosis", "RNNCell", "Recurrent", "check_contract", "doctor"]
