"""The long expressive memory: two coupled states, each with time steps of its own that are learnt."""

from typing import Any, NamedTuple, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.nn._bare_cell import BareCell
from engram.nn._euler import positive
from engram.nn._gates import check_real
from engram.nn._options import CellOptions
from engram.nn._recurrent import Recurrent


class LEMState(NamedTuple):
    """The output y ``(B, H)`` and the memory z ``(B, H)``."""

    y: Any
    z: Any


class LEMCell(BareCell):
    """One layer of :class:`LEM`, the long expressive memory: two states with learned time steps.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        dt (float): the largest time step, above 0. Default: 1.0.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters: weight_ih ``(4H, D)``, weight_hh ``(3H, H)`` of y, weight_zh ``(H, H)`` of z, bias ``(4H)``.
    State: a :class:`LEMState`, y ``(H)`` and z ``(H)``.
    """

    equation = (
        "a = dt sigmoid(W_1 y + V_1 x + b_1), b = dt sigmoid(W_2 y + V_2 x + b_2), "
        "z' = (1 - a) z + a tanh(W_z y + V_z x + b_z), y' = (1 - b) y + b tanh(W_y z' + V_y x + b_y)"
    )
    count = "4N^2"
    weight_ih: Tensor
    weight_hh: Tensor
    weight_zh: Tensor
    bias: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, *, bias: bool = True, dt: float = 1.0, **options: Any
    ) -> None:
        check_real(type(self).__name__, options.get("dtype"))
        super().__init__(input_size, hidden_size, **options)
        self.dt = positive("dt", dt)
        self.declare("weight_ih", 4 * hidden_size, input_size)
        self.declare("weight_hh", 3 * hidden_size, hidden_size)
        self.declare("weight_zh", hidden_size, hidden_size)
        if bias:
            self.declare("bias", 4 * hidden_size)
        else:
            self.register_parameter("bias", None)

    def fields(self) -> Any:
        return LEMState(self.start_field(self.hidden_size), self.start_field(self.hidden_size))

    def drive(self, input: Tensor) -> Tensor:
        """V x + b of the four blocks 1, 2, z, y."""
        return F.linear(input, self.weight_ih, self.bias)

    def step(self, drive: Tensor, state: LEMState) -> LEMState:
        y, z = state
        first_in, second_in, z_in, y_in = drive.chunk(4, -1)
        first_back, second_back, z_back = (y @ self.weight_hh.mT).chunk(3, -1)
        first = self.dt * torch.sigmoid(first_in + first_back)
        second = self.dt * torch.sigmoid(second_in + second_back)
        z = (1 - first) * z + first * torch.tanh(z_in + z_back)
        y = (1 - second) * y + second * torch.tanh(y_in + z @ self.weight_zh.mT)
        return LEMState(y, z)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dt={self.dt}"


class LEM(Recurrent):
    r"""Long expressive memory: two coupled states, whose time steps are gates.

    .. math::
        \Delta t_n = \Delta t\, \sigma(W_1 y_{n-1} + V_1 x_n + b_1), \quad
        \overline{\Delta t}_n = \Delta t\, \sigma(W_2 y_{n-1} + V_2 x_n + b_2), \\
        z_n = (1 - \Delta t_n) \odot z_{n-1} + \Delta t_n \odot \tanh(W_z y_{n-1} + V_z x_n + b_z), \\
        y_n = (1 - \overline{\Delta t}_n) \odot y_{n-1} + \overline{\Delta t}_n \odot \tanh(W_y z_n + V_y x_n + b_y)

    where each unit of z and of y has a time step of its own at every input, so that one network follows many time
    scales; y is the output. A step of :math:`\Delta t \le 1` keeps every state within [-1, 1].

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        dt (float): the largest time step, above 0. Default: 1.0.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, the parameters start_y and start_z. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, (y_0, z_0)
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        y_0, z_0: ``(L*directions, B, H)`` each (no B if unbatched). Default: the initial state.

    Outputs: output, (y_n, z_n)
        output: y of every step, ``(T, B, directions*H)``, in the form of the input.
        (y_n, z_n): a :class:`LEMState` of the last step.

    Attributes:
        weight_ih_l[k]: ``(4H, D)``, V_1, V_2, V_z, V_y; weight_hh_l[k]: ``(3H, H)``, W_1, W_2, W_z;
        weight_zh_l[k]: ``(H, H)``, W_y; bias_l[k]: ``(4H)``. Each starts in U(-1/sqrt(H), 1/sqrt(H)).

    Source: Rusch et al. 2022; initial weights and dt, their program.

    Example::

        >>> output, (y, z) = LEM(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, y.shape, z.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]), torch.Size([1, 3, 20]))
    """

    cell = LEMCell
    source = "Rusch et al. 2022 (LEM)"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, dt: float = 1.0, **options: Unpack[CellOptions]
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dt=dt, **options)
