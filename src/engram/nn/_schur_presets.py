"""Networks whose eigenvalues or singular values are trained within bounds: nnRNN, spectral margin, spectral RNN."""

from functools import partial
from typing import Any, ClassVar, Unpack

from engram.maps import Schur, SpectralMargin, SpectralReflections
from engram.nn._options import PresetOptions
from engram.nn._preset import Preset


class NonNormalRNN(Preset):
    r"""A network whose eigenvalues and feed-forward part are trained apart (nnRNN).

    .. math:: h_t = \phi(W h_{t-1} + U x_t), \qquad W = P (\Lambda + T) P^\top

    where P is orthogonal, :math:`\Lambda` consists of 2 x 2 rotations by theta, scaled by gamma, and T is strictly
    lower triangular. The penalty :math:`\delta \sum_i (1 - \gamma_i)^2 + \frac{\tau}{2} \lVert T \rVert^2` is
    ``layer.penalty()``, to be added to the loss; ``engram train`` does.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        mask (str): ``full``, the paper's: T reaches into the 2 x 2 blocks, and every real matrix is possible;
            ``block``: it does not, and the eigenvalues are gamma exp(+-i theta) exactly. Default: ``full``.
        init (str): distribution of the first P: ``henaff``, ``cayley``, ``haar`` or ``identity``. Default: ``henaff``.
        rebase_every (int or None): move the base point of P = Q exp(A) at every n-th optimiser step (see
            :func:`engram.maps.attach`). Default: None, never.
        gamma (float or None): a number fixes all moduli of eigenvalues to it. Default: None, they are trained, from 1.
        gamma_penalty (float): delta, at least 0. Default: 0.0.
        decay (float): tau, at least 0. Default: 0.0.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state (with a complex ``dtype``): ``complex``; ``real``; or
            ``concat``, real and imaginary parts side by side, 2H features. Default: None, the state as it is.
        bias (bool): learn an additive bias b. Default: False.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from H^2 numbers
        (A, T, theta, gamma), initially orthogonal; mod_bias_l[k]: modReLU's bias ``(H)``, initially U(-0.01, 0.01).

    Source: Kerg (2022), Section 3.5, Eq. 3.5.1; settings, Appendix A.1.
    """

    matrix, source = Schur, "Kerg et al. 2019 (nnRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        mask: str = "full",
        init: str = "henaff",
        rebase_every: int | None = None,
        gamma: float | None = None,
        gamma_penalty: float = 0.0,
        decay: float = 0.0,
        **options: Unpack[PresetOptions],
    ) -> None:
        schur = {"mask": mask, "init": init, "rebase_every": rebase_every, "gamma": gamma}
        map = partial(Schur, **schur, gamma_penalty=gamma_penalty, decay=decay)  # type: ignore[arg-type]
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class SpectralMarginRNN(Preset):
    r"""A network whose singular values stay within a margin of one.

    .. math:: h_t = \phi(W h_{t-1} + U x_t + b), \qquad W = Y\,\mathrm{diag}(s)\,Z^\top, \quad |s_i - 1| \le m

    where Y and Z are orthogonal and :math:`s_i = 1 + 2m(\sigma(p_i) - \frac12)`, initially 1.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        margin (float): m, from 0 (W orthogonal) to 1. Default: 0.1.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from H^2 numbers,
        initially orthogonal; bias_l[k]: b ``(H)``.

    Source: Vorontsov et al. 2017 (hard constraint); also Kerg (2022), Appendix D.3.
    """

    matrix, source = SpectralMargin, "Vorontsov et al. 2017"
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        margin: float = 0.1,
        **options: Unpack[PresetOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(SpectralMargin, margin=margin), **options)


class SpectralRNN(Preset):
    r"""A network whose singular values stay within a margin of one, by products of reflections (spectral RNN).

    .. math:: h_t = \phi(W h_{t-1} + U x_t + b), \qquad W = Y\,\mathrm{diag}(s)\,Z^\top, \quad |s_i - 1| \le m

    where Y and Z are products of Householder reflections and :math:`s_i = 1 + 2m(\sigma(p_i) - \frac12)`, initially 1.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        margin (float): m, from 0 to 1. Default: 0.1.
        reflections (tuple of two int or None): how many reflections Y and Z have, each from 1 to H; None is H.
            Default: (None, None).
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from
        m1(2H-m1+1)/2 + m2(2H-m2+1)/2 + H numbers; bias_l[k]: b ``(H)``.

    Source: Zhang et al. 2018.
    """

    matrix, source = SpectralReflections, "Zhang et al. 2018 (spectral RNN)"
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        margin: float = 0.1,
        reflections: tuple[int | None, int | None] = (None, None),
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(SpectralReflections, margin=margin, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)
