"""Unitary networks with trained phases: EURNN, of rotations of pairs of units, and scuRNN, of the Cayley transform."""

from functools import partial
from typing import Any, ClassVar, Unpack

from engram.maps import Givens, ScaledCayley
from engram.nn._options import PresetOptions
from engram.nn._preset import Preset, UnitaryPreset, complex_dtype
from engram.nn.laws import Constant, Glorot, Law, Uniform


class EURNN(Preset):
    r"""A unitary network of chosen capacity: layers of rotations of pairs of units (EURNN).

    .. math:: h_t = \mathrm{modReLU}(W h_{t-1} + U x_t), \qquad W = D F_C \cdots F_2 F_1

    where each F rotates disjoint pairs of coordinates, with a phase, and D is a diagonal of phases. With C = H layers
    every unitary matrix is reached.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        layers (int or str): C, the layers of rotations, at least 1; or ``fft``, log2(H) of them at distances H/2, H/4,
            ... Default: 2.
        complex (bool): False gives the real form, orthogonal and with a real state. Default: True.
        activation (str): ``identity``, ``tanh``, ``relu``, ``sigmoid`` or ``modrelu``. Default: ``modrelu``.
        nonlinearity (str or None): torch's name for ``activation``. Default: None.
        activation_in (str): ``recurrence``, or ``depth``: the recurrence is linear and only the output is activated.
            Default: ``recurrence``.
        output (str or None): what is shown of a complex state: ``concat``, real and imaginary parts side by side, 2H
            features; ``real``; or ``complex``. Default: None, which is ``concat`` with ``complex`` and ``real``
            without.
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
        dtype (torch.dtype or None): of the weights; with ``complex``, a real one gives the precision.
            Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*2H)``, in the form of the input; h_n: the state after the last step.

    Attributes:
        weight_ih_l[k]: U ``(H, D)``, initially U(-0.01, 0.01); weight_hh_l[k]: W ``(H, H)``, computed from about CH + H
        numbers (real form: CH/2); mod_bias_l[k]: modReLU's bias ``(H)``, real, initially -0.01, as in the source's
        program.

    Source: Jing et al. 2017; with the phase of a rotation on its input side, as in the source's program.
    """

    matrix, source = Givens, "Jing et al. 2017 (EURNN)"
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Uniform(0.01), "mod_bias": Constant(-0.01)}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        layers: int | str = 2,
        complex: bool = True,
        **options: Unpack[PresetOptions],
    ) -> None:
        if options.get("output") is None:
            options["output"] = "concat" if complex else "real"
        if complex:
            options["dtype"] = complex_dtype(options.get("dtype"))
        map = partial(Givens, layers=layers, complex=complex)
        super().__init__(input_size, hidden_size, num_layers, _map=map, **options)


class ScuRNN(UnitaryPreset):
    r"""A unitary network by the Cayley transform with learned phases (scuRNN).

    .. math:: h_t = \mathrm{modReLU}(W h_{t-1} + U x_t), \qquad
        W = (I + A)^{-1} (I - A) D, \quad A^* = -A, \quad D = \mathrm{diag}(e^{i \theta})

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
        weight_ih_l[k]: U ``(H, D)``, complex, initially Glorot normal; weight_hh_l[k]: W ``(H, H)``, complex, computed
        from H^2 + H real numbers (A and theta); mod_bias_l[k]: modReLU's bias ``(H)``, real, initially U(-0.01, 0.01);
        start_l[k]: the initial state ``(H)``, initially U(-0.01, 0.01).

    Source: Maduranga et al. 2019; also Kerg (2022), Appendix D.3.
    """

    matrix, source = ScaledCayley, "Maduranga et al. 2019 (scuRNN)"
    defaults: ClassVar[dict[str, Any]] = {**UnitaryPreset.defaults, "initial_state": "trained"}
    laws: ClassVar[dict[str, Law]] = {"weight_ih": Glorot(), "start": Uniform(0.01)}

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Unpack[PresetOptions]
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, _map=partial(ScaledCayley, complex=True), **options)
