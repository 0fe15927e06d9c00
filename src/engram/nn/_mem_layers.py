"""MemRNN and MemLSTM: attention over all past states."""

from typing import Unpack

from engram.maps import MapLike
from engram.nn._attention import Attentive
from engram.nn._mem import MemLSTMCell, MemRNNCell
from engram.nn._options import CellOptions


class MemRNN(Attentive):
    r"""The RNN with attention over all its past states.

    .. math::
        h_t = \phi(W_{hh} s_{t-1} + W_{ih} x_t + b), \quad
        \alpha_{\cdot,t} = \mathrm{softmax}_i(v^\top \tanh(W_q s_{t-1} + W_k h_i)), \quad
        s_t = f(h_t, \sum_{i=1}^{t} \alpha_{i,t} h_i)

    where the sum is over all states so far, the present one included, and the query is the state before,
    :math:`s_{t-1}`.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        align (str): a, the alignment: ``additive``; ``dot``, ``(W_q s)' W_k m / sqrt(H)``; or ``uniform``, all
            states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, ``W_c [h; c]``. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``tanh``.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        map (str, Map or callable): what W_hh stays during training: a name of ``engram list maps``, such as
            ``exponential`` (orthogonal), an :class:`engram.maps.Map`, or a function from a size to one. Default:
            ``free``, any matrix.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, with a memory of its own, and outputs are
            concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, a parameter: s_0. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, hx, return_attention
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        hx: the state before the first step, see below. Default: the initial state.
        return_attention: also return the :class:`Attention` of every step. Default: False.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input.
        state: a NamedTuple of h, s, ``(L*directions, B, H)`` each; memory and keys, ``(L*directions, B, T, H)``;
            made ``(L*directions, B, T)``, the step that made each state, 0 where a packed row had ended; t
            ``(L*directions, B)``, the steps so far. It grows with T; ``layer.carry(state)`` empties the memory.

    Attributes:
        weight_ih_l[k], weight_hh_l[k], bias_l[k] as :class:`RNN`; weight_query_l[k], weight_key_l[k]: ``(H, H)``, W_q
        and W_k; weight_align_l[k]: ``(H)``, v; with ``concat`` weight_combine_l[k]: ``(H, 2H)``. Each starts in
        U(-1/sqrt(H), 1/sqrt(H)).

    Cost: O(T B H (H + T)) time; the memory holds all T states. :class:`RelRNN` attends to a bounded number of them.

    Source: Kerg, Kanuparthi, Goyal, Goyette, Bengio and Lajoie 2020, sections 3 and 4.

    Example::

        >>> layer = MemRNN(10, 20)
        >>> output, state, attention = layer(torch.randn(30, 3, 10), return_attention=True)
        >>> output.shape, state.memory.shape, attention.weights.shape
        (torch.Size([30, 3, 20]), torch.Size([1, 3, 30, 20]), torch.Size([1, 3, 30, 1, 30]))
    """

    cell = MemRNNCell
    source = "Kerg et al. 2020"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        align: str = "additive",
        heads: int = 1,
        combine: str = "sum",
        readout: str = "h",
        activation: str = "tanh",
        activation_in: str = "recurrence",
        map: MapLike = "free",
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            align=align,
            heads=heads,
            combine=combine,
            readout=readout,
            activation=activation,
            activation_in=activation_in,
            map=map,
            **options,
        )


class MemLSTM(Attentive):
    r"""The LSTM with attention over all its past states.

    .. math::
        h_t, cell_t = \mathrm{LSTM}(x_t, s_{t-1}, cell_{t-1}), \quad
        \alpha_{\cdot,t} = \mathrm{softmax}_i(v^\top \tanh(W_q s_{t-1} + W_k h_i)), \quad
        s_t = f(h_t, \sum_{i=1}^{t} \alpha_{i,t} h_i)

    where the sum is over all states so far, the present one included, and the query is the state before,
    :math:`s_{t-1}`. LSTM is one step of :class:`LSTM` with s in place of h; its memory, cell, is carried as ever and
    not attended to.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        align (str): a, the alignment: ``additive``; ``dot``, ``(W_q s)' W_k m / sqrt(H)``; or ``uniform``, all
            states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, ``W_c [h; c]``. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        proj_size (int): P, the size to which h is projected, below H; 0 for none. Default: 0.
        layer_norm (bool): normalise the products and the memory, as :class:`LSTM` does. Default: False.
        chrono (int or None): T_max, the longest time to be remembered, in steps (Tallec and Ollivier 2018). Default:
            None, torch's distribution of biases.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, with a memory of its own, and outputs are
            concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, a parameter: s_0. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, hx, return_attention
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        hx: the state before the first step, see below. Default: the initial state.
        return_attention: also return the :class:`Attention` of every step. Default: False.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input.
        state: a NamedTuple of h, s, cell, ``(L*directions, B, H)`` each; memory and keys, ``(L*directions, B, T, H)``;
            made ``(L*directions, B, T)``, the step that made each state, 0 where a packed row had ended; t
            ``(L*directions, B)``, the steps so far. It grows with T; ``layer.carry(state)`` empties the memory.

    Attributes:
        those of :class:`LSTM`; weight_query_l[k], weight_key_l[k]: ``(H, H)``, W_q and W_k; weight_align_l[k]: ``(H)``,
        v; with ``concat`` weight_combine_l[k]: ``(H, 2H)``. Each starts in U(-1/sqrt(H), 1/sqrt(H)).

    Cost: O(T B H (H + T)) time; the memory holds all T states. :class:`RelLSTM` attends to a bounded number of them.

    Source: Kerg, Kanuparthi, Goyal, Goyette, Bengio and Lajoie 2020, sections 3 and 4.

    Example::

        >>> layer = MemLSTM(10, 20)
        >>> output, state, attention = layer(torch.randn(30, 3, 10), return_attention=True)
        >>> output.shape, state.memory.shape, attention.weights.shape
        (torch.Size([30, 3, 20]), torch.Size([1, 3, 30, 20]), torch.Size([1, 3, 30, 1, 30]))
    """

    cell = MemLSTMCell
    source = "Kerg et al. 2020"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        align: str = "additive",
        heads: int = 1,
        combine: str = "sum",
        readout: str = "h",
        proj_size: int = 0,
        layer_norm: bool = False,
        chrono: int | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            align=align,
            heads=heads,
            combine=combine,
            readout=readout,
            proj_size=proj_size,
            layer_norm=layer_norm,
            chrono=chrono,
            **options,
        )
