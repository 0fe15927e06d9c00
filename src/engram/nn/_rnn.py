"""The additive recurrence, under any map and with any activation."""

from typing import Any, Self, Unpack

import torch
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, check_choice
from engram.loops import ACTIVATIONS, activate, check_activation_dtype
from engram.maps import MapLike
from engram.nn._cell import Cell
from engram.nn._options import OtherOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Uniform

PLACES = ("depth", "recurrence")
OUTPUTS = ("complex", "concat", "real")


class RNNCell(Cell):
    """One layer of :class:`RNN`: the additive recurrence, under any map and with any activation.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``tanh``.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state: ``complex``, ``real``, or ``concat``, real and imaginary
            parts side by side, 2H features. Default: None, the state as it is.
        dtype (torch.dtype or None): of the weights, real or complex. Default: None, torch's default.
        options: ``bias``, ``map``, ``initial_state``, ``laws`` and ``device``, as in :class:`Cell`.

    Parameters: those of :class:`Cell`; with ``modrelu`` mod_bias ``(H)``, initially U(-0.01, 0.01), real also for
        complex weights.
    """

    equation = "h_t = act(W_hh h_{t-1} + W_ih x_t + b)"
    mod_bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "tanh",
        activation_in: str = "recurrence",
        output: str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("activation_in", activation_in, PLACES)
        kind = dtype or torch.get_default_dtype()
        if output is not None and check_choice("output", output, OUTPUTS) != "real" and not kind.is_complex:
            raise OptionError(f"output={output!r} needs complex weights, and this layer has {kind}: use output='real'")
        check_activation_dtype(activation, kind)
        super().__init__(input_size, hidden_size, dtype=dtype, **options)
        self.activation, self.activation_in, self.output_as = activation, activation_in, output
        if activation == "modrelu":
            self.declare("mod_bias", hidden_size, law=Uniform(0.01), dtype=kind.to_real())
        else:
            self.register_parameter("mod_bias", None)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """``.to(torch.complex128)`` makes every parameter complex; modReLU's bias stays real."""
        super()._apply(fn, recurse)
        bias = self.mod_bias
        if bias is not None and bias.is_complex():
            grad, bias.grad = bias.grad, None
            bias.data = bias.data.real.clone()
            bias.grad = None if grad is None else grad.real.clone()
        return self

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        new = drive + state @ self.weight_hh.mT
        return new if self.activation_in == "depth" else activate(self.activation, new, self.mod_bias)

    def output(self, state: Tensor) -> Tensor:
        if self.activation_in == "depth":
            state = activate(self.activation, state, self.mod_bias)
        if self.output_as in (None, "complex") or not state.is_complex():
            return state
        return state.real if self.output_as == "real" else torch.cat([state.real, state.imag], -1)

    @property
    def output_size(self) -> int:
        return 2 * self.hidden_size if self.output_as == "concat" else self.hidden_size

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}, activation_in={self.activation_in!r}"


class RNN(Recurrent):
    r"""The additive recurrent layer: ``torch.nn.RNN`` with a choice of activation and of recurrent matrix.

    .. math::
        h_t = \phi(W_{hh} h_{t-1} + W_{ih} x_t + b)

    With ``activation_in="depth"`` the recurrence is linear and only what goes upwards is activated,
    :math:`h_t = W_{hh} h_{t-1} + W_{ih} x_t + b,\; y_t = \phi(h_t)`: the state handed on in time is the
    pre-activation (Lizaire et al. 2026, Eq. 2).

    The whole layer is::

        h = state
        for t in range(T):
            h = activation(x[t] @ weight_ih.T + bias + h @ weight_hh.T)
            output[t] = h

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``tanh``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
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
        dtype (torch.dtype or None): of the weights, real or complex. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: ``(H, D)``, above the first layer ``(H, directions*H)``; weight_hh_l[k]: ``(H, H)``; bias_l[k]:
        ``(H)``, one bias where torch.nn.RNN has two that are added; each initially U(-1/sqrt(H), 1/sqrt(H)).
        mod_bias_l[k]: modReLU's bias ``(H)``, real, initially U(-0.01, 0.01). The backward direction has the same
        names,
        which end in ``_reverse``. cells: one :class:`RNNCell` per layer and direction.

    Cost: O(T B H (H + D)) time; memory O(T B H), the states.

    Example::

        >>> layer = RNN(10, 20, 2, map="cayley", activation="modrelu")
        >>> output, h_n = layer(torch.randn(5, 3, 10))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    cell = RNNCell
    source = "Elman 1990"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str | None = None,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        activation: str = "tanh",
        activation_in: str = "recurrence",
        map: MapLike = "free",
        initial_state: str = "zero",
        output: str | None = None,
        **options: Unpack[OtherOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            activation=one_activation(activation, nonlinearity),
            activation_in=activation_in,
            map=map,
            initial_state=initial_state,
            output=output,
            **options,
        )

    def arguments(self) -> dict[str, Any]:
        cell = self.cells[0]
        now = {"activation": cell.activation, "activation_in": cell.activation_in, "output": cell.output_as}
        now |= {"bias": cell.bias is not None, "initial_state": cell.start_from, "nonlinearity": None}
        return super().arguments() | now

    @classmethod
    def from_torch(cls, rnn: nn.RNN) -> Self:
        """The same network as a ``torch.nn.RNN``, weights included (its two biases are added)."""
        if type(rnn) is not nn.RNN:
            raise DTypeError(f"RNN.from_torch takes a torch.nn.RNN, got {type(rnn).__name__}")
        weight: Any = rnn.weight_ih_l0
        layer = RNN(**_torch_arguments(rnn), activation=rnn.nonlinearity, device=weight.device, dtype=weight.dtype)
        layer.load_state_dict(rnn.state_dict())
        return layer.train(rnn.training).replace(cls)

    @torch.no_grad()
    def to_torch(self) -> nn.RNN:
        """The same network as a ``torch.nn.RNN``: the matrix of a map is baked in, the second bias is zero."""
        cell = self.cells[0]
        if cell.activation not in ("tanh", "relu") or cell.activation_in != "recurrence" or cell.has_trained_start:
            raise OptionError(
                "torch.nn.RNN knows activation 'tanh' and 'relu', in the recurrence, from a zero initial state; "
                f"this layer has activation={cell.activation!r}, activation_in={cell.activation_in!r}, "
                f"initial_state={cell.start_from!r}. Use layer.fold() to bake in the matrix"
            )
        factory = {"device": cell.weight_ih.device, "dtype": cell.weight_ih.dtype}
        rnn = nn.RNN(**_torch_arguments(self), nonlinearity=self.nonlinearity, **factory)
        weights = self.fold().state_dict()
        for suffix, cell in self.named_cells():
            if cell.bias is not None:
                bias = weights.pop(f"bias{suffix}")
                weights |= {f"bias_ih{suffix}": bias, f"bias_hh{suffix}": torch.zeros_like(bias)}
        rnn.load_state_dict(weights)
        return rnn.train(self.training)


def one_activation(activation: str, nonlinearity: str | None, default: str = "tanh") -> str:
    """The activation, by our name or by torch's."""
    if nonlinearity is None or nonlinearity == activation:
        return activation
    if activation != default:
        raise OptionError(f"activation and nonlinearity are one thing, got {activation!r} and {nonlinearity!r}")
    return nonlinearity


def _torch_arguments(rnn: Any) -> dict[str, Any]:
    """What our layer and torch's are both made with."""
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    return {name: getattr(rnn, name) for name in names}
