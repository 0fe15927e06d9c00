"""Networks whose recurrent matrix trains freely, from a good start or with a penalty: IRNN, RNN-orth, soft."""

from functools import partial
from typing import Any, ClassVar, Unpack

from engram.maps import Free, SoftOrthogonal
from engram.nn._options import PresetOptions
from engram.nn._preset import Preset
from engram.nn.laws import Constant, Identity, Law, Normal, Orthogonal


class IRNN(Preset):
    r"""A ReLU network whose recurrent matrix starts at the identity and then trains freely.

    .. math:: h_t = \mathrm{ReLU}(W h_{t-1} + U x_t + b), \qquad W = I \text{ at the start}

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``relu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
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
        weight_ih_l[k]: U ``(H, D)``, initially N(0, 0.001^2); weight_hh_l[k]: W ``(H, H)``, initially the identity;
        bias_l[k]: b ``(H)``, initially 0.

    Source: Le et al. 2015 (IRNN); also Kerg (2022), Appendix D.1.
    """

    matrix, source = Free, "Le et al. 2015 (IRNN)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "relu"}
    laws: ClassVar[dict[str, Law]] = {"weight_hh": Identity(), "weight_ih": Normal(0.001), "bias": Constant(0.0)}


class OrthInitRNN(Preset):
    r"""A network whose recurrent matrix starts orthogonal and then trains freely (RNN-orth).

    .. math:: h_t = \phi(W h_{t-1} + U x_t + b), \qquad W^\top W = I \text{ at the start}

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        init (str): distribution of the first W: ``haar`` (uniform over orthogonal matrices), ``henaff`` (angles uniform
            in (-pi, pi)), ``cayley`` (angles within one radian) or ``identity``. Default: ``haar``.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``; bias_l[k]: b ``(H)``;
        mod_bias_l[k]: modReLU's bias ``(H)``, with modReLU.

    Source: Kerg (2022), Section 3.6 and Appendix A.1.4 (RNN-orth); with the start described there, which the
    released program ignores.
    """

    matrix, source = Free, "RNN-orth (Kerg et al. 2019)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "haar",
        **options: Unpack[PresetOptions],
    ) -> None:
        self.init = init
        super().__init__(input_size, hidden_size, num_layers, **options)

    def _laws(self) -> dict[str, Law]:
        return {**self.laws, "weight_hh": Orthogonal(self.init)}


class SoftOrthogonalRNN(Preset):
    r"""A network whose recurrent matrix is pulled towards the orthogonal ones by a penalty, and kept there by nothing.

    .. math:: h_t = \phi(W h_{t-1} + U x_t + b), \qquad \text{loss} + \lambda \lVert W^\top W - I \rVert^2

    Add ``layer.penalty()`` to the loss; ``engram train`` does. W starts orthogonal.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        strength (float): lambda, the weight of the penalty, at least 0. Default: 0.01.
        norm (str): of W^T W - I: ``fro`` (Frobenius) or ``spectral``, as the source writes it. Default: ``fro``.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``tanh``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, initially uniform over the
        orthogonal matrices; bias_l[k]: b ``(H)``.

    Source: Vorontsov et al. 2017 (soft constraint); also Kerg (2022), Appendix D.3.
    """

    matrix, source = SoftOrthogonal, "Vorontsov et al. 2017 (soft orthogonality)"
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        strength: float = 0.01,
        norm: str = "fro",
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(SoftOrthogonal, strength=strength, norm=norm)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)
