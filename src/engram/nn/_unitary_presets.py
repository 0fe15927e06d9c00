"""Networks whose recurrent matrix stays unitary: complex states, shown as real numbers."""

import math
from functools import partial
from typing import Any, ClassVar, Unpack

from engram.maps import Exponential, Fourier, Stiefel
from engram.nn._options import PresetOptions
from engram.nn._preset import UnitaryPreset
from engram.nn.laws import Constant, Glorot, Law, Uniform


class URNN(UnitaryPreset):
    r"""The unitary network with O(N) parameters (uRNN).

    .. math:: h_t = \mathrm{modReLU}(W h_{t-1} + U x_t), \qquad W = D_3 R_2 F^{-1} D_2 \Pi R_1 F D_1

    where D are diagonals of phases, R complex reflections, F the Fourier transform and :math:`\Pi` a fixed permutation:
    7H parameters, and only part of the unitary matrices.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of the complex state: ``concat``, real and imaginary parts side by side, 2H
            features; ``real``; or ``complex``. Default: ``concat``.
        bias (bool): learn an additive bias b. Default: False.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``trained``, a parameter, or ``zero``. Default: ``trained``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights; a real one gives the precision of the complex one.
            Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*2H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: U ``(H, D)``, complex, real and imaginary parts initially U(-s, s), s = sqrt(3/(D+H));
        weight_hh_l[k]: W ``(H, H)``, complex, computed from 7H numbers; mod_bias_l[k]: modReLU's bias ``(H)``, real,
        initially 0; start_l[k]: the initial state ``(H)``, of unit length on average.

    Source: Arjovsky et al. 2016; also Kerg (2022), Appendix D.1.
    """

    matrix, source = Fourier, "Arjovsky et al. 2016 (uRNN)"
    defaults: ClassVar[dict[str, Any]] = {**UnitaryPreset.defaults, "initial_state": "trained"}

    def _laws(self) -> dict[str, Law]:
        start = Uniform(math.sqrt(3 / (2 * self.hidden_size)))
        return {"weight_ih": Glorot(uniform=True), "mod_bias": Constant(0.0), "start": start}


class FullCapacityURNN(UnitaryPreset):
    r"""A network over all unitary matrices, moved by multiplicative steps (full-capacity uRNN).

    .. math:: h_t = \mathrm{modReLU}(W h_{t-1} + U x_t), \qquad
        W \leftarrow \mathrm{Cay}\bigl(\tfrac{\lambda}{2} (G W^* - W G^*)\bigr) W

    where G is the gradient of W and lambda the learning rate: train W with :class:`engram.maps.StiefelStep`, all else
    with any optimiser; ``engram train`` does. The generator printed in the source is no descent direction; the one
    here is.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of the complex state: ``concat``, real and imaginary parts side by side, 2H
            features; ``real``; or ``complex``. Default: ``concat``.
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
        dtype (torch.dtype or None): of the weights; a real one gives the precision of the complex one.
            Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*2H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: U ``(H, D)``, complex, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, complex, initially
        uniform over the unitary matrices; mod_bias_l[k]: modReLU's bias ``(H)``, real, initially U(-0.01, 0.01).

    Source: Wisdom et al. 2016; also Kerg (2022), Appendix D.3.
    """

    matrix, source = Stiefel, "Wisdom et al. 2016"


class HylandRaetschRNN(UnitaryPreset):
    r"""A network over all unitary matrices, by the exponential of their Lie algebra (Hyland and Rätsch).

    .. math:: h_t = \mathrm{modReLU}(W h_{t-1} + U x_t), \qquad
        W = Q \exp\Bigl(\sum_{j=1}^{H^2} \nu_j T_j\Bigr)

    where :math:`T_j` are the H^2 basis matrices of the skew-Hermitian ones: i on the diagonal; 1 and -1, or i and i,
    at two places off it. Every unitary matrix is reached, and any optimiser may move the real numbers :math:`\nu`. Q is
    a fixed base point, where W starts; with ``init="identity"`` it is the identity, as in the source.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        init (str): distribution of the first W: ``haar`` (uniform over unitary matrices), ``henaff``, ``cayley`` or
            ``identity``. Default: ``haar``.
        rebase_every (int or None): move the base point Q to W, and nu to 0, at every n-th optimiser step (see
            :func:`engram.maps.attach`). Default: None, never.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of the complex state: ``concat``, real and imaginary parts side by side, 2H
            features; ``real``; or ``complex``. Default: ``concat``.
        bias (bool): learn an additive bias b. Default: False.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``trained``, a parameter, or ``zero``. Default: ``trained``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights; a real one gives the precision of the complex one.
            Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*2H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: U ``(H, D)``, complex, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, complex, computed
        from H^2 real numbers; mod_bias_l[k]: modReLU's bias ``(H)``, real, initially U(-0.01, 0.01);
        start_l[k]: the initial state ``(H)``, initially U(-0.01, 0.01).

    Source: Hyland and Rätsch 2017 (the parametrization); also Kerg (2022), Appendix D.3. Activation, input weights
    and initial state are those of :class:`ScuRNN`: the parametrization is what this network is about.
    """

    matrix, source = Exponential, "Hyland and Rätsch 2017"
    defaults: ClassVar[dict[str, Any]] = {**UnitaryPreset.defaults, "initial_state": "trained"}
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Glorot(), "start": Uniform(0.01)}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        init: str = "haar",
        rebase_every: int | None = None,
        **options: Unpack[PresetOptions],
    ) -> None:
        map = partial(Exponential, init=init, rebase_every=rebase_every, complex=True)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)
