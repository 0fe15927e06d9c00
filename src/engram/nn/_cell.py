"""A recurrence with one recurrent matrix: what a layer does in one step, in one direction."""

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.maps import Free, MapLike, make_map
from engram.nn._bare_cell import BareCell


class Cell(BareCell):
    """The base of a recurrence with a recurrent matrix. A subclass defines :meth:`step` and its equation.

    ::

        class LeakyCell(engram.nn.Cell):
            equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

            def step(self, drive, state):
                return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)

        class LeakyRNN(engram.nn.Recurrent):
            cell = LeakyCell

    ``LeakyRNN(input_size, hidden_size, num_layers, batch_first=..., bidirectional=...)`` is now a layer like
    ``torch.nn.LSTM``, and :func:`engram.checks.check_contract` tests that it is. Its state is one tensor ``(B, H)``;
    for another one define :meth:`fields`.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
        initial_state (str): ``zero``, or ``trained``, a parameter. Default: ``zero``.
        laws (dict or None): initial distributions by parameter name (:mod:`engram.nn.laws`). Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Class attributes:
        gates: G, how many blocks of ``hidden_size`` the drive has (an LSTM: 4).

    Parameters, each initially U(-1/sqrt(H), 1/sqrt(H)), as in torch.nn.RNN:
        weight_ih ``(G*H, D)``, weight_hh ``(G*H, H)`` (under ``map``), bias ``(G*H)``; start ``(H)`` with
        ``initial_state="trained"``.
    """

    gates: ClassVar[int] = 1

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        map: MapLike = "free",
        **options: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, **options)
        rows, made = self.gates * hidden_size, make_map(map, hidden_size)
        if rows != hidden_size and type(made) is not Free:
            raise OptionError(
                f"a map needs a square matrix, but weight_hh of {type(self).__name__} is {rows} x {hidden_size}"
            )
        self.declare("weight_ih", rows, input_size)
        self.declare("weight_hh", rows, hidden_size, map=made)
        if self.weight_hh.is_complex() != self.weight_ih.is_complex():
            raise DTypeError(
                f"{made!r} gives {self.weight_hh.dtype} matrices, this layer has {self.weight_ih.dtype} weights. "
                "Use dtype=torch.complex64 for a complex map, a real dtype for a real one"
            )
        self.declare_bias(rows if bias else 0)

    def declare_bias(self, size: int) -> None:
        """The parameter ``bias`` of this size; None if that is 0."""
        if size:
            self.declare("bias", size)
        else:
            self.register_parameter("bias", None)

    @property
    def reference_weight(self) -> Tensor:
        weight = self._parameters.get("weight_ih")
        return self._reference if weight is None else weight  # another parametrization may have taken the weight away

    def drive(self, input: Tensor) -> Any:
        """The input projection of all steps at once: ``(..., D)`` to ``(..., G*H)``."""
        return F.linear(input, self.weight_ih, self.bias)
