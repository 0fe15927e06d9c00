"""Networks whose recurrent matrix stays orthogonal: expRNN, scoRNN, oRNN."""

from functools import partial
from typing import Any, ClassVar, Unpack

from engram.maps import Exponential, Householder, ScaledCayley
from engram.nn._options import PresetOptions
from engram.nn._preset import Preset


class ExpRNN(Preset):
    r"""An orthogonal network by the matrix exponential (expRNN).

    .. math:: h_t = \phi(W h_{t-1} + U x_t), \qquad W = Q \exp(A), \quad A^\top = -A

    All rotations (orthogonal matrices of determinant 1) are reached.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        init (str): distribution of the first W: ``henaff`` (angles uniform in (-pi, pi)), ``cayley`` (angles within one
            radian), ``haar`` (uniform over rotations) or ``identity``. Default: ``henaff``.
        rebase_every (int or None): move the base point Q to W, and A to 0, at every n-th optimiser step (dynamic
            trivialisation, see :func:`engram.maps.attach`). Default: None, never.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from the H(H-1)/2
        entries of A; mod_bias_l[k]: modReLU's bias ``(H)``, initially U(-0.01, 0.01).

    Source: Lezcano-Casado and Martinez-Rubio 2019, also Kerg (2022), Appendix D.4; ``rebase_every``, Lezcano-Casado
    2019.
    """

    matrix, source = Exponential, "Lezcano-Casado and Martinez-Rubio 2019 (expRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "henaff",
        rebase_every: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(Exponential, init=init, rebase_every=rebase_every)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class ScoRNN(Preset):
    r"""An orthogonal network by the scaled Cayley transform (scoRNN).

    .. math:: h_t = \phi(W h_{t-1} + U x_t), \qquad W = (I + A)^{-1} (I - A) D, \quad A^\top = -A

    where D is diagonal and fixed, with ``rho`` entries -1 and the others 1.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        rho (int or None): the number of entries -1 of D, from 0 to H. Default: None, which is H // 2.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from the H(H-1)/2
        entries of A; mod_bias_l[k]: modReLU's bias ``(H)``, initially U(-0.01, 0.01).

    Source: Helfrich et al. 2018; also Kerg (2022), Appendix D.3.
    """

    matrix, source = ScaledCayley, "Helfrich et al. 2018 (scoRNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        rho: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(ScaledCayley, rho=rho), **options)


class HouseholderRNN(Preset):
    r"""An orthogonal network by a product of Householder reflections (oRNN).

    .. math:: h_t = \phi(W h_{t-1} + U x_t + b), \qquad W = H_N(u_N) H_{N-1}(u_{N-1}) \cdots H_{N-m+1}(u_{N-m+1})

    where N = H and each factor reflects the last k coordinates, :math:`I_k - 2 u u^\top / \lVert u \rVert^2`.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        reflections (int or None): m, from 1 to H; with H of them every orthogonal matrix is reached. Default: None,
            which is H.
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
        weight_ih_l[k]: U ``(H, D)``, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, computed from m(2H-m+1)/2
        numbers; bias_l[k]: b ``(H)``; mod_bias_l[k]: modReLU's bias ``(H)``.

    Source: Mhammedi et al. 2017; also Kerg (2022), Appendix D.3.
    """

    matrix, source = Householder, "Mhammedi et al. 2017 (oRNN)"
    defaults: ClassVar[dict[str, Any]] = {"activation": "modrelu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(Householder, reflections=reflections)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)
