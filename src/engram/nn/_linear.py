"""Layers whose recurrence is linear: the linear RNN, and the RNN that is activated only in depth."""

import copy
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice
from engram.loops import in_blocks, linear_scan, linear_scan_last
from engram.nn._options import DepthOptions, LinearOptions
from engram.nn._rnn import RNN, RNNCell
from engram.nn.laws import Constant, Law, Xavier

XAVIER: dict[str, Law] = {"weight_ih": Xavier(), "weight_hh": Xavier(), "bias": Constant(0.0)}
INITS: dict[str, dict[str, Law]] = {"uniform": {}, "xavier": XAVIER}


class LinearCell(RNNCell):
    """One layer of :class:`LinearRNN`, and with an activation of :class:`DepthRNN`.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``identity``.
        activation_in (str): ``depth``; for ``recurrence`` use :class:`RNNCell`. Default: ``depth``.
        output (str or None): what is shown of a complex state: ``complex``, ``real``, or ``concat``, real and imaginary
            parts side by side, 2H features. Default: None, the state as it is.
        dtype (torch.dtype or None): of the weights, real or complex. Default: None, torch's default.
        options: ``bias``, ``map``, ``initial_state``, ``laws`` and ``device``, as in :class:`Cell`.

    Parameters: weight_ih ``(H, D)``, weight_hh ``(H, H)``, bias ``(H)``.
    """

    equation = "h_t = W_hh h_{t-1} + W_ih x_t + b, y_t = act(h_t)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "identity",
        activation_in: str = "depth",
        output: str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        if activation_in != "depth":
            raise OptionError(
                f"{type(self).__name__} has a linear recurrence, got activation_in={activation_in!r}. Use RNNCell"
            )
        super().__init__(
            input_size,
            hidden_size,
            activation=activation,
            activation_in=activation_in,
            output=output,
            dtype=dtype,
            **options,
        )

    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        if not in_blocks(input, self.weight_hh, sizes):
            return super().run(input, state, sizes, reverse)
        states, final = linear_scan(self._states, self._last, input, self.weight_hh, state, reverse)
        return self.output(states), final

    def last(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> Tensor:
        if not in_blocks(input, self.weight_hh, sizes):
            final: Tensor = super().last(input, state, sizes, reverse)
            return final
        return linear_scan_last(self._last, input, self.weight_hh, state, reverse)

    def _states(self, input: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The states themselves, before the activation."""
        linear = copy.copy(self)
        linear.__dict__.update(activation="identity", output_as=None)
        return super(LinearCell, linear).run(input, state, None, False)

    def _last(self, input: Tensor, state: Tensor) -> Tensor:
        final: Tensor = super().last(input, state, None, False)
        return final


class DepthRNN(RNN):
    r"""The RNN with its activation only in depth: a linear recurrence, activated on the way up.

    .. math::
        h_t = W_{hh} h_{t-1} + W_{ih} x_t + b, \quad y_t = \phi(h_t)

    The state handed on in time is the pre-activation, the raw input is not activated, and the last layer's output is
    (Eq. 2 of the source below): ``RNN(..., activation_in="depth")`` with a choice of start.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        init (str): ``uniform``, all weights and biases in U(-1/sqrt(H), 1/sqrt(H)), as the source states: a spectral
            radius of about 0.58; or ``xavier``, as in its program, matrices Xavier uniform and biases zero: a spectral
            radius of about 1. Default: ``uniform``.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``tanh``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
        activation_in (str): ``depth``; for ``recurrence`` use :class:`RNN`. Default: ``depth``.
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
        weight_ih_l[k]: ``(H, D)``; weight_hh_l[k]: ``(H, H)``; bias_l[k]: ``(H)``.

    Source: Lizaire et al. (2026), Section 2, Eq. 2.
    """

    cell = LinearCell
    source = "Lizaire et al. 2026 (activation in depth)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "uniform",
        activation_in: str = "depth",
        **options: Unpack[LinearOptions],
    ) -> None:
        if activation_in != "depth":
            raise OptionError(
                f"{type(self).__name__} has a linear recurrence, got activation_in={activation_in!r}. Use engram.nn.RNN"
            )
        self.init = check_choice("init", init, INITS)
        super().__init__(input_size, hidden_size, num_layers, activation_in="depth", **options)

    def _laws(self) -> dict[str, Law]:
        return INITS[self.init]


class LinearRNN(DepthRNN):
    r"""The linear recurrent layer, affine in its inputs.

    .. math::
        h_t = W_{hh} h_{t-1} + W_{ih} x_t + b

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        init (str): ``uniform``, all weights and biases in U(-1/sqrt(H), 1/sqrt(H)), a spectral radius of about 0.58; or
            ``xavier``, matrices Xavier uniform and biases zero, a spectral radius of about 1. Default: ``uniform``.
        activation (str): ``identity``; for another one use :class:`DepthRNN` or :class:`RNN`. Default: ``identity``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``depth``. Default: ``depth``.
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
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: ``(H, D)``; weight_hh_l[k]: ``(H, H)``; bias_l[k]: ``(H)``.

    On a sequence of at least 1024 steps of few rows and units, where no compiled loop serves it (no C compiler, complex
    numbers), time is cut into blocks that run side by side; see :func:`engram.loops.linear_scan`. The compiled loop
    was faster than blocks at every size measured, so where there is one it runs.

    Source: Lizaire et al. (2026), Section 2, Definition 1 with the identity as activation.
    """

    source = "Lizaire et al. 2026 (linear RNN)"

    defaults: ClassVar[dict[str, Any]] = {"activation": "identity"}

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Unpack[DepthOptions]) -> None:
        asked = options.pop("nonlinearity", None) or options.setdefault("activation", "identity")
        if asked != "identity":
            raise OptionError(
                f"LinearRNN has no activation, got activation={asked!r}. Use DepthRNN for one between "
                "layers, RNN for one in the recurrence"
            )
        super().__init__(input_size, hidden_size, num_layers, **options)
