"""The LSTM whose gradient through h is blocked at random steps (h-detach)."""

from typing import Any, Unpack

import torch
from torch import Tensor

from engram.errors import OptionError, check_number
from engram.nn._lstm import LSTMCell, LSTMState
from engram.nn._options import CellOptions
from engram.nn._recurrent import Recurrent
from engram.state import State


class HDetachCell(LSTMCell):
    """One layer of :class:`HDetachLSTM`: an LSTM in which gradients go through h at some steps only.

    In training the input of the loop has one number more than that of the layer: 1 at the steps that are blocked. It is
    the same for all rows, so it is sampled where the rows of a step are known, in :meth:`run`, and not in the drive.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        p (float): the probability that a step is blocked, from 0 to 1. Default: 0.5.
        bias (bool): learn an additive bias b. Default: True.
        options: ``proj_size``, ``layer_norm``, ``chrono``, ``initial_state``, ``laws``, ``device`` and ``dtype``, as in
            :class:`LSTMCell`.

    Parameters and state: those of :class:`LSTMCell`.
    """

    equation = LSTMCell.equation + "; in training, with probability p per step, no gradient goes from the gates to h"

    def __init__(self, input_size: int, hidden_size: int, *, p: float = 0.5, bias: bool = True, **options: Any) -> None:
        if not 0 <= check_number("p", p) <= 1:
            raise OptionError(f"p must be a probability, from 0 (no step is blocked) to 1 (all are), got {p}")
        super().__init__(input_size, hidden_size, bias=bias, **options)
        self.p = float(p)

    def drive(self, input: Tensor) -> Any:
        """The drive of the LSTM and, where the input says so, which steps are blocked ``(..., 1)``."""
        values, blocked = input[..., : self.input_size], input[..., self.input_size :]
        return (super().drive(values), blocked) if blocked.shape[-1] else super().drive(values)

    def step(self, drive: Any, state: LSTMState) -> LSTMState:
        if isinstance(drive, Tensor):
            return super().step(drive, state)
        drive, blocked = drive
        h = torch.where(blocked > 0, state.h.detach(), state.h)  # the same numbers, another gradient
        return super().step(drive, LSTMState(h, state.c))

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        return super().run(self._marked(input, sizes), state, sizes, reverse)

    def last(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> State:
        return super().last(self._marked(input, sizes), state, sizes, reverse)

    def _marked(self, input: Tensor, sizes: Tensor | None) -> Tensor:
        """The input and, in training, a column that says which steps are blocked, sampled with torch's generator."""
        if not self.training or self.p == 0 or input.shape[-1] > self.input_size:
            return input
        steps = len(input) if sizes is None else len(sizes)
        blocked = torch.bernoulli(torch.full((steps,), self.p, dtype=input.dtype, device=input.device))
        if sizes is None:
            column = blocked[:, None, None].expand(steps, input.shape[1], 1)
        else:
            column = blocked.repeat_interleave(sizes.to(input.device))[:, None]
        return torch.cat([input, column], -1)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", p={self.p}"


class HDetachLSTM(Recurrent):
    r"""An LSTM that in training, at random steps, lets no gradient pass from the gates to the hidden state.

    .. math::
        i_t, f_t, o_t = \sigma(W_i x_t + b_i + W_h \bar h_{t-1} + b_h), \quad g_t = \tanh(\text{the same}), \\
        c_t = f_t \odot c_{t-1} + i_t \odot g_t, \quad h_t = o_t \odot \tanh(c_t)

    where :math:`\bar h_{t-1} = h_{t-1}` as a number; at each step, with probability p and for the whole batch at once,
    it is a constant to the gradient. The path through c is never blocked, so that what is left of the gradient is
    that of the linear path. The outputs are those of an LSTM with the same weights, and in evaluation so are the
    gradients.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        p (float): the probability that a step is blocked, from 0 to 1. Default: 0.5, the source's for copying.
        proj_size (int): P, the size to which h is projected, below H; 0 for none. Default: 0.
        layer_norm (bool): normalise the products and the memory, as :class:`LSTM` does. Default: False.
        chrono (int or None): T_max, the longest time to be remembered, in steps (Tallec and Ollivier 2018). Default:
            None, torch's distribution of biases.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, the parameters start_h and start_c. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, (h_0, c_0)
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, P or H)``, c_0: ``(L*directions, B, H)`` (no B if unbatched). Default: zeros.

    Outputs: output, (h_n, c_n)
        output: ``(T, B, directions * (P or H))``, in the form of the input.
        (h_n, c_n): an :class:`LSTMState` of the last step, in the form of the state given.

    Attributes:
        weight_ih_l[k]: ``(4H, D)``, weight_hh_l[k]: ``(4H, H)``, bias_ih_l[k], bias_hh_l[k]: ``(4H)``; blocks i, f, g,
        o, U(-1/sqrt(H), 1/sqrt(H)) at the start: the state dict of ``torch.nn.LSTM``.

    Source: Kanuparthi et al. 2019 (h-detach).
    """

    cell = HDetachCell
    source = "Kanuparthi et al. 2019 (h-detach)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        p: float = 0.5,
        proj_size: int = 0,
        layer_norm: bool = False,
        chrono: int | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            p=p,
            proj_size=proj_size,
            layer_norm=layer_norm,
            chrono=chrono,
            **options,
        )
        self.proj_size = proj_size
