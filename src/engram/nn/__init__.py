"""Recurrent layers with the calling convention of ``torch.nn.LSTM``."""

from engram.nn import laws
from engram.nn._antisymmetric import AntisymmetricCell, AntisymmetricRNN
from engram.nn._as_lstm import AsLSTM
from engram.nn._attention import Attention, Attentive
from engram.nn._attentive import AttentiveCell
from engram.nn._bare_cell import BareCell
from engram.nn._bilinear import BilinearCell, BilinearRNN
from engram.nn._cell import Cell
from engram.nn._cornn import CoRNN, CoRNNCell, CoRNNState
from engram.nn._cp import CPBIRNN, CPRNN, CPBilinearCell, CPCell
from engram.nn._cp_net import CPNet
from engram.nn._free_presets import IRNN, OrthInitRNN, SoftOrthogonalRNN
from engram.nn._gated import GORU, GORUCell, HenaffCell, HenaffRNN
from engram.nn._gru import GRU, GRUCell
from engram.nn._h_detach import HDetachCell, HDetachLSTM
from engram.nn._lem import LEM, LEMCell, LEMState
from engram.nn._linear import DepthRNN, LinearCell, LinearRNN
from engram.nn._lstm import LSTM, LSTMCell, LSTMState
from engram.nn._mem import MemCell, MemLSTMCell, MemRNNCell
from engram.nn._mem_layers import MemLSTM, MemRNN
from engram.nn._minimal import MinGRU, MinGRUCell, MinLSTM, MinLSTMCell
from engram.nn._mirnn import MIRNN, MIRNNCell
from engram.nn._orthogonal_presets import ExpRNN, HouseholderRNN, ScoRNN
from engram.nn._param_groups import param_groups
from engram.nn._phase_presets import EURNN, ScuRNN
from engram.nn._rac import RAC, RACCell, RACState
from engram.nn._recurrent import Recurrent
from engram.nn._rel import RelCell, RelLSTMCell, RelRNNCell
from engram.nn._rel_layers import RelLSTM, RelRNN
from engram.nn._rnn import RNN, RNNCell
from engram.nn._s4_cell import S4Cell, S4DCell, S4State
from engram.nn._s4_layer import S4, S4D
from engram.nn._sab import SAB, SABCell, SABState
from engram.nn._safe_globals import safe_globals
from engram.nn._schur_presets import NonNormalRNN, SpectralMarginRNN, SpectralRNN
from engram.nn._screen import Screen
from engram.nn._second_order import SecondOrderCell, SecondOrderRNN
from engram.nn._tensor_net import TensorNet
from engram.nn._tensor_train import TensorTrainNet
from engram.nn._unitary_presets import URNN, FullCapacityURNN, HylandRaetschRNN

__all__ = [
    "CPBIRNN",
    "CPRNN",
    "EURNN",
    "GORU",
    "GRU",
    "IRNN",
    "LEM",
    "LSTM",
    "MIRNN",
    "RAC",
    "RNN",
    "S4",
    "S4D",
    "SAB",
    "URNN",
    "AntisymmetricCell",
    "AntisymmetricRNN",
    "AsLSTM",
    "Attention",
    "Attentive",
    "AttentiveCell",
    "BareCell",
    "BilinearCell",
    "BilinearRNN",
    "CPBilinearCell",
    "CPCell",
    "CPNet",
    "Cell",
    "CoRNN",
    "CoRNNCell",
    "CoRNNState",
    "DepthRNN",
    "ExpRNN",
    "FullCapacityURNN",
    "GORUCell",
    "GRUCell",
    "HDetachCell",
    "HDetachLSTM",
    "HenaffCell",
    "HenaffRNN",
    "HouseholderRNN",
    "HylandRaetschRNN",
    "LEMCell",
    "LEMState",
    "LSTMCell",
    "LSTMState",
    "LinearCell",
    "LinearRNN",
    "MIRNNCell",
    "MemCell",
    "MemLSTM",
    "MemLSTMCell",
    "MemRNN",
    "MemRNNCell",
    "MinGRU",
    "MinGRUCell",
    "MinLSTM",
    "MinLSTMCell",
    "NonNormalRNN",
    "OrthInitRNN",
    "RACCell",
    "RACState",
    "RNNCell",
    "Recurrent",
    "RelCell",
    "RelLSTM",
    "RelLSTMCell",
    "RelRNN",
    "RelRNNCell",
    "S4Cell",
    "S4DCell",
    "S4State",
    "SABCell",
    "SABState",
    "ScoRNN",
    "Screen",
    "ScuRNN",
    "SecondOrderCell",
    "SecondOrderRNN",
    "SoftOrthogonalRNN",
    "SpectralMarginRNN",
    "SpectralRNN",
    "TensorNet",
    "TensorTrainNet",
    "laws",
    "param_groups",
    "safe_globals",
]
