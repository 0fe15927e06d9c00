"""What ``torch.load(weights_only=True)`` must know to read a whole layer."""

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from engram.maps import Map
from engram.nn import laws
from engram.nn._as_lstm import AsLSTM
from engram.nn._attentive import restored_state
from engram.nn._bare_cell import BareCell, empty_cell
from engram.nn._cornn import CoRNNState
from engram.nn._gated import OpenReset
from engram.nn._lem import LEMState
from engram.nn._lstm import LSTMState
from engram.nn._rac import RACState, ScaledRACState
from engram.nn._recurrent import Recurrent
from engram.nn._s4_cell import S4State
from engram.nn._sab import SABState
from engram.nn._screen import Screen
from engram.nn._state_space import StateSpace
from engram.nn._tensor_net import TensorNet

ROOMS = ("engram.maps.", "engram.nn.")
TORCH = (
    nn.BatchNorm1d,
    nn.GRU,
    nn.Identity,
    nn.LSTM,
    nn.LayerNorm,
    nn.Linear,
    nn.ModuleDict,
    nn.ModuleList,
    ParametrizationList,
)
"""Of what torch's own modules our layers are made, and the two that stand beside them."""

STATES = (CoRNNState, LEMState, LSTMState, RACState, S4State, SABState, ScaledRACState)


def safe_globals() -> list[Any]:
    """The classes that a saved layer is made of, for ``torch.load`` to allow::

        torch.save(layer, "layer.pt")
        with torch.serialization.safe_globals(engram.safe_globals()):
            layer = torch.load("layer.pt", weights_only=True)

    Every layer, cell and map of engram, the parts and states they have, and the modules of torch in them. None of them
    runs code out of a file, imports a module or touches a file when it is made or filled; what a hostile file can do is
    what it can do with ``torch.nn.Linear``: ask for more memory than there is. Classes of your own are yours to add.
    """
    kinds = [kind for base in (BareCell, Map, Recurrent, StateSpace, TensorNet) for kind in _family(base)]
    own = [kind for kind in vars(laws).values() if isinstance(kind, type) and kind.__module__ == laws.__name__]
    known = {*kinds, *own, OpenReset, AsLSTM, Screen, *STATES, *TORCH}
    return [*sorted(known, key=lambda kind: (kind.__module__, kind.__qualname__)), empty_cell, restored_state]


def _family(base: type) -> Iterator[type]:
    """The subclasses that engram itself defines."""
    subclasses: list[type] = base.__subclasses__()
    for kind in subclasses:
        if kind.__module__.startswith(ROOMS):
            yield kind
            yield from _family(kind)
