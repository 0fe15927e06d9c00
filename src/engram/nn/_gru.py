"""The gated recurrent unit, as torch.nn.GRU has it."""

from typing import Self, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.nn._gates import GateCell, from_torch, normalised, to_torch
from engram.nn._options import OwnOptions
from engram.nn._recurrent import Recurrent


class GRUCell(GateCell):
    """One layer of :class:`GRU`: the gated recurrent unit of ``torch.nn.GRU``.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        layer_norm (bool): normalise the products. Default: False.
        chrono (int or None): T_max, the longest time to be remembered, in steps. Default: None, torch's distribution of
            biases.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters, blocks r, z, n as in torch: weight_ih ``(3H, D)``, weight_hh ``(3H, H)``, bias_ih and bias_hh ``(3H)``;
        with ``layer_norm`` gain_ih and gain_hh ``(3H)``, initially 1.
    """

    equation = (
        "r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), "
        "h' = (1 - z) n + z h"
    )
    count = "3N^2"
    gates = 3
    keep = 1

    def drive(self, input: Tensor) -> Tensor:
        """W_ih x + b_ih of the three blocks."""
        if self.gain_ih is None:
            return F.linear(input, self.weight_ih, self.bias_ih)
        return self._normalised(F.linear(input, self.weight_ih), self.gain_ih, self.bias_ih)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        if self.gain_hh is None:
            fed_back = F.linear(state, self.weight_hh, self.bias_hh)
        else:
            fed_back = self._normalised(state @ self.weight_hh.mT, self.gain_hh, self.bias_hh)
        r_in, z_in, n_in = drive.chunk(3, -1)
        r_back, z_back, n_back = fed_back.chunk(3, -1)
        r, z = torch.sigmoid(r_in + r_back), torch.sigmoid(z_in + z_back)
        n = torch.tanh(n_in + r * n_back)
        return (1 - z) * n + z * state

    def _normalised(self, rows: Tensor, gain: Tensor, bias: Tensor | None) -> Tensor:
        """The two gates normalised together, the candidate by itself."""
        sizes = (2 * self.hidden_size, self.hidden_size)
        blocks = zip(rows.split(sizes, -1), gain.split(sizes), strict=True)
        joined = torch.cat([normalised(block, own) for block, own in blocks], -1)
        return joined if bias is None else joined + bias


class GRU(Recurrent):
    r"""The gated recurrent unit: ``torch.nn.GRU`` word for word, with two options.

    .. math::
        r_t = \sigma(W_{ir} x_t + b_{ir} + W_{hr} h_{t-1} + b_{hr}), \quad
        z_t = \sigma(W_{iz} x_t + b_{iz} + W_{hz} h_{t-1} + b_{hz}), \\
        n_t = \tanh(W_{in} x_t + b_{in} + r_t \odot (W_{hn} h_{t-1} + b_{hn})), \quad
        h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    where r, z, n are the reset gate, the update gate and the candidate. The reset gate acts after the product, as in
    torch, where Cho et al. 2014 let it act before.

    With ``layer_norm`` every product W x and W h is replaced by its normalised form with a gain of its own, r and z
    together over 2H numbers and n over H (Ba et al. 2016).

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        layer_norm (bool): normalise the products. Default: False.
        chrono (int or None): T_max, the longest time to be remembered, in steps: b_z = log U(1, T_max - 1) at the start
            (Tallec and Ollivier 2018; their z is 1 - z here). Default: None, torch's distribution.
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
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: zeros.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input.
        h_n: the state of the last step, in the form of the state given.

    Attributes:
        weight_ih_l[k]: ``(3H, D)``, above the first layer ``(3H, directions*H)``; blocks r, z, n.
        weight_hh_l[k]: ``(3H, H)``.
        bias_ih_l[k], bias_hh_l[k]: ``(3H)``.
        gain_ih_l[k], gain_hh_l[k]: ``(3H)``, with ``layer_norm``.
        The backward direction has the same names, which end in ``_reverse``.

    State dicts are those of ``torch.nn.GRU``, both ways. Every weight starts in U(-1/sqrt(H), 1/sqrt(H)), with the
    very numbers of ``torch.nn.GRU`` after the same ``torch.manual_seed``; with ``layer_norm`` gains start at 1 and
    biases at 0.

    Source: Cho et al. 2014.

    Example::

        >>> layer = GRU(10, 20, 2, bidirectional=True)
        >>> output, h = layer(torch.randn(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 40]), torch.Size([4, 3, 20]))
    """

    cell = GRUCell
    source = "Cho et al. 2014"
    mode = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
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
            layer_norm=layer_norm,
            chrono=chrono,
            initial_state=initial_state,
            device=device,
            dtype=dtype,
            **options,
        )

    @classmethod
    def from_torch(cls, gru: nn.GRU) -> Self:
        """The same network as a ``torch.nn.GRU``, weights included."""
        return from_torch(cls, gru, nn.GRU)

    def to_torch(self) -> nn.GRU:
        """The same network as a ``torch.nn.GRU``; refused with layer_norm or a trained initial state."""
        module: nn.GRU = to_torch(self, nn.GRU)
        return module
