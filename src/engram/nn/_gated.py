"""Two cells of the spectral family that are not additive: GORU, and Henaff's linear-transition RNN."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice
from engram.loops import WITHOUT_BIAS, activate, check_activation_dtype
from engram.maps import Givens, MapLike, make_map
from engram.nn._bare_cell import BareCell
from engram.nn._cell import Cell
from engram.nn._options import CellOptions, MatrixOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Constant, Uniform


@dataclass(frozen=True)
class OpenReset:
    """b_r = 2, b_z = b_h = 0."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        weight.zero_()[: cell.hidden_size] = 2.0


class GORUCell(BareCell):
    """One layer of :class:`GORU`: a GRU whose candidate turns the state by an orthogonal matrix.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        map (str, Map, callable or None): how Q is kept orthogonal. Default: None, a product of two layers of rotations.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters: weight_ih ``(3H, D)``, blocks r, z, candidate, and weight_hh ``(2H, H)``, blocks r, z, initially
        U(-0.01, 0.01); rotation, Q ``(H, H)``; bias ``(3H)``, initially 2, 0, 0; modReLU's mod_bias ``(H)``, initially
        0.01 (Jing et al. 2019).
    """

    equation = (
        "r = sigmoid(W_r h + U_r x + b_r), z = sigmoid(W_z h + U_z x + b_z), "
        "h' = z h + (1 - z) modReLU(U_h x + r (Q h)), Q orthogonal"
    )
    count = "2N^2 + those of Q"
    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor | None
    mod_bias: Tensor
    rotation: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        map: MapLike | None = None,
        **options: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, **options)
        self.declare("weight_ih", 3 * hidden_size, input_size, law=Uniform(0.01))
        self.declare("weight_hh", 2 * hidden_size, hidden_size, law=Uniform(0.01))
        if bias:
            self.declare("bias", 3 * hidden_size, law=OpenReset())
        else:
            self.register_parameter("bias", None)
        self.declare("mod_bias", hidden_size, law=Constant(0.01))
        made = make_map(partial(Givens, layers=2) if map is None else map, hidden_size)
        self.declare("rotation", hidden_size, hidden_size, map=made)

    def drive(self, input: Tensor) -> Tensor:
        """(U_r x + b_r, U_z x + b_z, U_h x + b_h) of all steps, side by side."""
        return F.linear(input, self.weight_ih, self.bias)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        from_r, from_z, candidate = drive.chunk(3, -1)
        to_r, to_z = (state @ self.weight_hh.mT).chunk(2, -1)
        r, z = torch.sigmoid(from_r + to_r), torch.sigmoid(from_z + to_z)
        new = activate("modrelu", candidate + r * (state @ self.rotation.mT), self.mod_bias)
        return z * state + (1 - z) * new


class GORU(Recurrent):
    r"""The gated orthogonal recurrent unit: a GRU whose candidate turns the old state by an orthogonal matrix.

    .. math::
        r_t = \sigma(W_r h_{t-1} + U_r x_t + b_r), \quad z_t = \sigma(W_z h_{t-1} + U_z x_t + b_z), \\
        h_t = z_t h_{t-1} + (1 - z_t)\, \mathrm{modReLU}(U_h x_t + r_t (Q h_{t-1}))

    where r is the reset gate, which acts after Q, and z the update gate, which weights the old state.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        map (str, Map, callable or None): how Q is kept orthogonal: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: None, a product of two layers of
            rotations, ``Givens(H, layers=2)``.
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
        weight_ih_l[k]: ``(3H, D)``, U_r, U_z, U_h, initially U(-0.01, 0.01).
        weight_hh_l[k]: ``(2H, H)``, W_r, W_z, initially U(-0.01, 0.01).
        rotation_l[k]: Q ``(H, H)``, computed from the free parameters of its map.
        bias_l[k]: ``(3H)``, initially b_r = 2, b_z = b_h = 0; mod_bias_l[k]: modReLU's bias ``(H)``, initially 0.01.

    Source: Jing et al. 2019; initial weights, their program.
    """

    cell = GORUCell
    source = "Jing et al. 2019 (GORU)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        map: MapLike | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, map=map, **options)


class HenaffCell(Cell):
    """One layer of :class:`HenaffRNN`: the input is activated, the recurrence is linear.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``relu``.
        options: ``bias``, ``map``, ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`Cell`.

    Parameters: weight_ih ``(H, D)``, weight_hh ``(H, H)``, bias ``(H)``.
    """

    equation = "h_t = act(W_ih x_t + b) + W_hh h_{t-1}"

    def __init__(self, input_size: int, hidden_size: int, *, activation: str = "relu", **options: Any) -> None:
        check_choice("activation", activation, WITHOUT_BIAS)
        check_activation_dtype(activation, options.get("dtype") or torch.get_default_dtype())
        super().__init__(input_size, hidden_size, **options)
        self.activation = activation

    def drive(self, input: Tensor) -> Tensor:
        return activate(self.activation, super().drive(input))

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return drive + state @ self.weight_hh.mT


class HenaffRNN(Recurrent):
    r"""The linear-transition RNN: the non-linearity acts on the input only.

    .. math:: h_t = \phi(W_{ih} x_t + b) + W_{hh} h_{t-1}

    With a rotation matrix of the right period it solves the copying problem, and with the identity the adding
    problem, by weights written down rather than trained (:mod:`engram.explicit`).

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``relu``.
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
        weight_ih_l[k]: ``(H, D)``; weight_hh_l[k]: ``(H, H)``; bias_l[k]: ``(H)``; each initially
        U(-1/sqrt(H), 1/sqrt(H)).

    Source: Henaff et al. 2016; also Kerg (2022), Appendix D.2.
    """

    cell = HenaffCell
    source = "Henaff et al. 2016"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "relu",
        **options: Unpack[MatrixOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, activation=activation, **options)
