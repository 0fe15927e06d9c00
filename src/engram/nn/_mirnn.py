"""Multiplicative integration: state and input meet in a product and in a sum."""

from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice
from engram.loops import WITHOUT_BIAS, activate, check_activation_dtype
from engram.nn._cell import Cell
from engram.nn._options import MatrixOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Constant


class MIRNNCell(Cell):
    """One layer of :class:`MIRNN`: input and state are multiplied, and added.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``tanh``.
        options: ``bias``, ``map``, ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`Cell`.

    Parameters: weight_ih ``(H, D)``, weight_hh ``(H, H)``, and, each ``(H)``: alpha, beta_input, beta_state and bias,
        initially 1, 1/2, 1/2 and 0 (Wu et al. 2016).
    """

    alpha: Tensor
    beta_input: Tensor
    beta_state: Tensor
    equation = "h_t = act(alpha (W_hh h_{t-1}) (W_ih x_t) + beta_input W_ih x_t + beta_state W_hh h_{t-1} + b)"

    def __init__(self, input_size: int, hidden_size: int, *, activation: str = "tanh", **options: Any) -> None:
        check_choice("activation", activation, WITHOUT_BIAS)
        check_activation_dtype(activation, options.get("dtype") or torch.get_default_dtype())
        super().__init__(input_size, hidden_size, **options)
        self.activation = activation
        for name, value in (("alpha", 1.0), ("beta_input", 0.5), ("beta_state", 0.5)):
            self.declare(name, hidden_size, law=Constant(value))

    def declare_bias(self, size: int) -> None:
        """b = 0, as in the source."""
        self.laws.setdefault("bias", Constant(0.0))
        super().declare_bias(size)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The gate and what is added are affine maps of the input: their weights and biases."""
        gate, added = self.alpha[:, None] * self.weight_ih, self.beta_input[:, None] * self.weight_ih
        return gate, self.beta_state, added, self.bias

    def drive(self, input: Tensor) -> Tensor:
        """The gate and what is added, side by side."""
        gate, beta, added, bias = self._weights()
        return torch.cat([F.linear(input, gate, beta), F.linear(input, added, bias)], -1)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        gate, added = drive.chunk(2, -1)
        return activate(self.activation, gate * (state @ self.weight_hh.mT) + added)


class MIRNN(Recurrent):
    r"""Multiplicative integration: state and input meet in a product and in a sum.

    .. math::
        h_t = \phi(\alpha \odot W h_{t-1} \odot U x_t + \beta_1 \odot U x_t + \beta_2 \odot W h_{t-1} + b)

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``tanh``.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
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
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: U ``(H, D)``; weight_hh_l[k]: W ``(H, H)``; both initially U(-1/sqrt(H), 1/sqrt(H)).
        alpha_l[k], beta_input_l[k], beta_state_l[k]: ``(H)``, initially 1, 1/2 and 1/2; bias_l[k]: ``(H)``, initially
        0.

    Source: Wu et al. 2016.
    """

    cell = MIRNNCell
    source = "Wu et al. 2016 (MI-RNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        **options: Unpack[MatrixOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, activation=activation, **options)
