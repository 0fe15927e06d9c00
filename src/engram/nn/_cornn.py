"""The coupled oscillatory RNN: a network of driven and damped oscillators."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from engram.nn._cell import Cell
from engram.nn._euler import at_least_zero, positive
from engram.nn._options import MatrixOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Law, Uniform


class CoRNNState(NamedTuple):
    """The positions y ``(B, H)`` of the oscillators, which are the output, and their velocities z ``(B, H)``."""

    y: Any
    z: Any


class CoRNNCell(Cell):
    """One layer of :class:`CoRNN`: coupled oscillators that are driven by the input.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        dt (float): the time step, above 0. Default: 0.042.
        gamma (float): the restoring force, at least 0. Default: 2.7.
        epsilon (float): the damping, at least 0. Default: 4.7.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None.
        options: ``bias``, ``map``, ``initial_state``, ``device`` and ``dtype``, as in :class:`Cell`.

    Parameters: weight_ih ``(H, D)``, weight_hh ``(H, H)`` of y, weight_zh ``(H, H)`` of z, bias ``(H)``. Each starts in
        U(-s, s), s = 1/sqrt(D + 2H): one torch.nn.Linear of all three, as in the source's program.
    State: a :class:`CoRNNState`, y ``(H)`` and z ``(H)``.
    """

    equation = (
        "z_t = z_{t-1} + dt (tanh(W_hh y_{t-1} + W_zh z_{t-1} + W_ih x_t + b) - gamma y_{t-1} - epsilon z_{t-1}), "
        "y_t = y_{t-1} + dt z_t"
    )
    count = "2N^2"
    weight_zh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        dt: float = 0.042,
        gamma: float = 2.7,
        epsilon: float = 4.7,
        laws: Mapping[str, Law] | None = None,
        **options: Any,
    ) -> None:
        law = Uniform(1 / math.sqrt(input_size + 2 * hidden_size))
        own: dict[str, Law] = dict.fromkeys(("weight_ih", "weight_hh", "weight_zh", "bias"), law)
        super().__init__(input_size, hidden_size, laws={**own, **(laws or {})}, **options)
        self.dt = positive("dt", dt)
        self.gamma, self.epsilon = at_least_zero("gamma", gamma), at_least_zero("epsilon", epsilon)
        self.declare("weight_zh", hidden_size, hidden_size)

    def fields(self) -> Any:
        return CoRNNState(self.start_field(self.hidden_size), self.start_field(self.hidden_size))

    def step(self, drive: Tensor, state: CoRNNState) -> CoRNNState:
        y, z = state
        force = torch.tanh(drive + y @ self.weight_hh.mT + z @ self.weight_zh.mT)
        z = z + self.dt * (force - self.gamma * y - self.epsilon * z)
        return CoRNNState(y + self.dt * z, z)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dt={self.dt}, gamma={self.gamma}, epsilon={self.epsilon}"


class CoRNN(Recurrent):
    r"""The coupled oscillatory RNN: every unit is a driven, damped oscillator, and the network couples them.

    .. math::
        z_t = z_{t-1} + \Delta t\,\bigl(\tanh(W y_{t-1} + \mathcal{W} z_{t-1} + V x_t + b)
            - \gamma y_{t-1} - \epsilon z_{t-1}\bigr), \quad
        y_t = y_{t-1} + \Delta t\, z_t

    where y are positions, z velocities, gamma the frequency (squared) and epsilon the damping of an oscillator: the
    equation :math:`y'' = \tanh(W y + \mathcal{W} y' + V x + b) - \gamma y - \epsilon y'` in steps of
    :math:`\Delta t`. Gradients neither vanish nor explode while :math:`\Delta t` is small (the source's bounds).

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        dt (float): the time step, above 0. The source tunes dt, gamma and epsilon per task; the defaults are those of
            its program for pixel MNIST. Default: 0.042.
        gamma (float): the restoring force, at least 0. Default: 2.7.
        epsilon (float): the damping, at least 0. Default: 4.7.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
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
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, (y_0, z_0)
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        y_0, z_0: ``(L*directions, B, H)`` each (no B if unbatched). Default: the initial state.

    Outputs: output, (y_n, z_n)
        output: y of every step, ``(T, B, directions*H)``, in the form of the input.
        (y_n, z_n): a :class:`CoRNNState` of the last step.

    Attributes:
        weight_ih_l[k]: V ``(H, D)``; weight_hh_l[k]: W ``(H, H)``; weight_zh_l[k]: ``(H, H)``, of the velocities;
        bias_l[k]: ``(H)``. Each starts in U(-s, s), s = 1/sqrt(D + 2H).

    Source: Rusch and Mishra 2021, with the damping explicit, as in their program.

    Example::

        >>> output, (y, z) = CoRNN(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, y.shape, z.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]), torch.Size([1, 3, 20]))
    """

    cell = CoRNNCell
    source = "Rusch and Mishra 2021 (coRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float = 0.042,
        gamma: float = 2.7,
        epsilon: float = 4.7,
        **options: Unpack[MatrixOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dt=dt, gamma=gamma, epsilon=epsilon, **options)
