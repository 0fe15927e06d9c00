"""The long short-term memory, as torch.nn.LSTM has it."""

from typing import Any, NamedTuple, Self, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import OptionError, check_size
from engram.nn._gates import GateCell, from_torch, normalised, to_torch
from engram.nn._options import OwnOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Constant


class LSTMState(NamedTuple):
    """The output h ``(B, H)``, or ``(B, proj_size)``, and the cell's memory c ``(B, H)``."""

    h: Any
    c: Any


class LSTMCell(GateCell):
    """One layer of :class:`LSTM`: the long short-term memory of ``torch.nn.LSTM``.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        proj_size (int): P, the size to which h is projected, below H; 0 for none. Default: 0.
        bias (bool): learn an additive bias b. Default: True.
        layer_norm (bool): normalise the products and the memory. Default: False.
        options: ``chrono`` (as in :class:`LSTM`); ``initial_state``, ``laws``, ``device`` and ``dtype``, as in
            :class:`BareCell`.

    Parameters, blocks i, f, g, o as in torch: weight_ih ``(4H, D)``, weight_hh ``(4H, P or H)``, bias_ih and bias_hh
        ``(4H)``; with ``proj_size`` weight_hr ``(P, H)``; with ``layer_norm`` gain_ih and gain_hh ``(4H)`` = 1, gain_c
        ``(H)`` = 1 and bias_c ``(H)`` = 0.
    State: an :class:`LSTMState`, h ``(P or H)`` and c ``(H)``.
    """

    equation = (
        "i, f, o = sigmoid(W_ih x + b_ih + W_hh h + b_hh), g = tanh(the same with its own weights), "
        "c' = f c + i g, h' = o tanh(c')"
    )
    count = "4N^2"
    gates = 4
    keep, take = 1, 0

    weight_hr: Tensor | None
    gain_c: Tensor | None
    bias_c: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        proj_size: int = 0,
        bias: bool = True,
        layer_norm: bool = False,
        **options: Any,
    ) -> None:
        self.proj_size = check_size("proj_size", proj_size, least=0)
        if proj_size and proj_size >= check_size("hidden_size", hidden_size):
            raise OptionError(
                f"proj_size must be smaller than hidden_size, or 0 for none; got proj_size={proj_size}, "
                f"hidden_size={hidden_size}"
            )
        super().__init__(input_size, hidden_size, bias=bias, layer_norm=layer_norm, **options)
        self.declare_if(layer_norm, "gain_c", hidden_size, law=Constant(1.0))
        self.declare_if(layer_norm and bias, "bias_c", hidden_size, law=Constant(0.0))

    def declare_projection(self) -> None:
        self.declare_if(self.proj_size > 0, "weight_hr", self.proj_size, self.hidden_size)

    def fields(self) -> Any:
        return LSTMState(self.start_field(self.fed_back_size), self.start_field(self.hidden_size))

    @property
    def fed_back_size(self) -> int:
        return self.proj_size or self.hidden_size

    @property
    def output_size(self) -> int:
        return self.fed_back_size

    def drive(self, input: Tensor) -> Tensor:
        """W_ih x + b_ih + b_hh of the four blocks: both biases are added to the same."""
        bias = None if self.bias_ih is None or self.bias_hh is None else self.bias_ih + self.bias_hh
        if self.gain_ih is None:
            return F.linear(input, self.weight_ih, bias)
        drive = normalised(F.linear(input, self.weight_ih), self.gain_ih)
        return drive if bias is None else drive + bias

    def step(self, drive: Tensor, state: LSTMState) -> LSTMState:
        fed_back = state.h @ self.weight_hh.mT
        if self.gain_hh is not None:
            fed_back = normalised(fed_back, self.gain_hh)
        i, f, g, o = (drive + fed_back).chunk(4, -1)
        c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self._shown(c))
        return LSTMState(h if self.weight_hr is None else h @ self.weight_hr.mT, c)

    def _shown(self, c: Tensor) -> Tensor:
        """What the output's tanh takes: c, or c normalised."""
        if self.gain_c is None:
            return c
        rows = normalised(c, self.gain_c)
        return rows if self.bias_c is None else rows + self.bias_c


class LSTM(Recurrent):
    r"""The long short-term memory: ``torch.nn.LSTM`` word for word, with two options.

    .. math::
        i_t = \sigma(W_{ii} x_t + b_{ii} + W_{hi} h_{t-1} + b_{hi}), \quad
        f_t = \sigma(W_{if} x_t + b_{if} + W_{hf} h_{t-1} + b_{hf}), \\
        g_t = \tanh(W_{ig} x_t + b_{ig} + W_{hg} h_{t-1} + b_{hg}), \quad
        o_t = \sigma(W_{io} x_t + b_{io} + W_{ho} h_{t-1} + b_{ho}), \\
        c_t = f_t \odot c_{t-1} + i_t \odot g_t, \quad h_t = o_t \odot \tanh(c_t)

    where i, f, g, o are the input gate, the forget gate, the candidate and the output gate. With ``proj_size`` what
    goes back and out is :math:`W_{hr} h_t`.

    With ``layer_norm`` the four sums are :math:`LN(W_i x_t) + b_i + LN(W_h h_{t-1}) + b_h`, each LN over all 4H numbers
    of a row and with a gain of its own, and :math:`h_t = o_t \odot \tanh(LN(c_t) + b_c)` (Ba et al. 2016).

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        proj_size (int): P, the size to which h is projected, below H; 0 for none. Default: 0.
        layer_norm (bool): normalise the products and the memory. Default: False.
        chrono (int or None): T_max, the longest time to be remembered, in steps: b_f = log U(1, T_max - 1) and b_i =
            -b_f at the start (Tallec and Ollivier 2018). Default: None, torch's distribution.
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
        weight_ih_l[k]: ``(4H, D)``, above the first layer ``(4H, directions * (P or H))``; blocks i, f, g, o.
        weight_hh_l[k]: ``(4H, P or H)``.
        bias_ih_l[k], bias_hh_l[k]: ``(4H)``.
        weight_hr_l[k]: ``(P, H)``, with ``proj_size``.
        gain_ih_l[k], gain_hh_l[k]: ``(4H)``, gain_c_l[k], bias_c_l[k]: ``(H)``, with ``layer_norm``.
        The backward direction has the same names, which end in ``_reverse``.

    State dicts are those of ``torch.nn.LSTM``, both ways. Every weight starts in U(-1/sqrt(H), 1/sqrt(H)), with the
    very numbers of ``torch.nn.LSTM`` after the same ``torch.manual_seed``; with ``layer_norm`` gains start at 1 and
    biases at 0.

    Source: Hochreiter and Schmidhuber 1997; the projection, Sak et al. 2014.

    Example::

        >>> layer = LSTM(10, 20, 2)
        >>> output, (h, c) = layer(torch.randn(5, 3, 10))
        >>> output.shape, h.shape, c.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]), torch.Size([2, 3, 20]))
    """

    cell = LSTMCell
    source = "Hochreiter and Schmidhuber 1997"
    mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer_norm: bool = False,
        chrono: int | None = None,
        initial_state: str = "zero",
        **options: Unpack[OwnOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size=proj_size,
            layer_norm=layer_norm,
            chrono=chrono,
            initial_state=initial_state,
            device=device,
            dtype=dtype,
            **options,
        )
        self.proj_size = proj_size

    @classmethod
    def from_torch(cls, lstm: nn.LSTM) -> Self:
        """The same network as a ``torch.nn.LSTM``, weights included."""
        return from_torch(cls, lstm, nn.LSTM, "proj_size")

    def to_torch(self) -> nn.LSTM:
        """The same network as a ``torch.nn.LSTM``; refused with layer_norm or a trained initial state."""
        module: nn.LSTM = to_torch(self, nn.LSTM, "proj_size")
        return module

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", proj_size={self.proj_size}" if self.proj_size else "")
