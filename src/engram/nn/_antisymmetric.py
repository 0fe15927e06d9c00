"""The antisymmetric RNN: a stable differential equation, followed by steps of Euler's method."""

import math
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_flag
from engram.maps import Antisymmetric
from engram.nn._bare_cell import BareCell
from engram.nn._euler import positive
from engram.nn._gates import check_real
from engram.nn._options import CellOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Constant, Normal


class AntisymmetricCell(BareCell):
    """One layer of :class:`AntisymmetricRNN`: steps of Euler's method along a stable differential equation.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        epsilon (float): the step size, above 0. Default: 0.1.
        gamma (float): the diffusion, at least 0. Default: 0.1.
        deviation (float): sigma_w of the initial W, at least 0. Default: 1.0.
        gated (bool): with the input gate z, which shares the recurrent matrix. Default: False.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters: weight_ih ``(H, D)`` and bias ``(H)``, gated ``(2H, D)`` and ``(2H)``; weight_hh ``(H, H)``.
    """

    equation = "h_t = h_{t-1} + epsilon tanh(W_hh h_{t-1} + W_ih x_t + b) [times sigmoid(W_hh h_{t-1} + W_z x_t + b_z)]"
    matrix_moves_state = False

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        epsilon: float = 0.1,
        gamma: float = 0.1,
        deviation: float = 1.0,
        gated: bool = False,
        **options: Any,
    ) -> None:
        check_real(type(self).__name__, options.get("dtype"))
        super().__init__(input_size, hidden_size, **options)
        self.epsilon, self.gated = positive("epsilon", epsilon), check_flag("gated", gated)
        rows = 2 * hidden_size if gated else hidden_size
        self.declare("weight_ih", rows, input_size, law=Normal(1 / math.sqrt(input_size)))
        made = Antisymmetric(hidden_size, gamma, deviation)
        self.declare("weight_hh", hidden_size, hidden_size, map=made)
        if bias:
            self.declare("bias", rows, law=Constant(0.0))
        else:
            self.register_parameter("bias", None)

    @property
    def reference_weight(self) -> Tensor:
        weight = self._parameters.get("weight_ih")
        return self._reference if weight is None else weight

    def drive(self, input: Tensor) -> Tensor:
        """V_h x + b_h, and V_z x + b_z beside it if there is a gate."""
        return F.linear(input, self.weight_ih, self.bias)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        fed_back = state @ self.weight_hh.mT
        if not self.gated:
            return state + self.epsilon * torch.tanh(drive + fed_back)
        candidate, gate = drive.chunk(2, -1)
        return state + self.epsilon * torch.sigmoid(gate + fed_back) * torch.tanh(candidate + fed_back)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}, gated={self.gated}"


class AntisymmetricRNN(Recurrent):
    r"""The antisymmetric RNN: steps of Euler's method along a stable differential equation.

    .. math::
        h_t = h_{t-1} + \epsilon \tanh((W - W^\top - \gamma I) h_{t-1} + V x_t + b)

    and with ``gated``

    .. math::
        z_t = \sigma((W - W^\top - \gamma I) h_{t-1} + V_z x_t + b_z), \quad
        h_t = h_{t-1} + \epsilon\, z_t \odot \tanh((W - W^\top - \gamma I) h_{t-1} + V x_t + b)

    where the recurrent matrix has eigenvalues of real part :math:`-\gamma`: without diffusion what enters the state
    neither grows nor fades, and a small :math:`\gamma` makes up for the growth that Euler's method adds.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        epsilon (float): the step size, above 0. The source chooses among 0.01, 0.1 and 1. Default: 0.1.
        gamma (float): the diffusion, at least 0. With gamma = epsilon it makes up for the growth that Euler's method
            gives to frequencies up to 1.4. Default: 0.1.
        deviation (float): sigma_w of the initial W, at least 0. The source chooses among 0, 1, 2, 4, 8 and 16.
            Default: 1.0.
        gated (bool): with the input gate z, which shares the recurrent matrix. Default: False.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, a parameter. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state of the last step.

    Attributes:
        weight_ih_l[k]: ``(H, D)``, gated ``(2H, D)``, V above V_z; initially N(0, 1/D).
        weight_hh_l[k]: ``(H, H)``, W - W^T - gamma I, built of the H(H-1)/2 entries of a strictly upper triangular W;
            these are initially N(0, sigma_w^2/H).
        bias_l[k]: ``(H)``, gated ``(2H)``; initially 0.

    Source: Chang et al. 2019, initial weights too.

    Example::

        >>> output, h = AntisymmetricRNN(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """

    cell = AntisymmetricCell
    matrix = Antisymmetric
    source = "Chang et al. 2019 (AntisymmetricRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        epsilon: float = 0.1,
        gamma: float = 0.1,
        deviation: float = 1.0,
        gated: bool = False,
        **options: Unpack[CellOptions],
    ) -> None:
        given = {"epsilon": epsilon, "gamma": gamma, "deviation": deviation, "gated": gated}
        super().__init__(input_size, hidden_size, num_layers, **given, **options)
