"""The second-order recurrence: a bilinear one with the linear terms of an RNN."""

from typing import Any, Unpack

from torch import Tensor

from engram.maps import MapLike, make_map
from engram.nn._bilinear import BilinearCell
from engram.nn._options import MatrixOptions
from engram.nn._recurrent import Recurrent


class SecondOrderCell(BilinearCell):
    """One layer of :class:`SecondOrderRNN`: the product of a :class:`BilinearCell`, and W_ih, W_hh and b of an RNN.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``tanh``.
        residual (bool): add the input to the new state; needs D = H. Default: False.
        initial_state (str): ``zero``, ``ones``, or ``trained``, a parameter that starts at ones. Default: ``zero``.
        bias (bool): learn an additive bias b. Default: True.
        map (str, Map or callable): what W_hh stays during training, as in :class:`Cell`. Default: ``free``, any matrix.
        options: ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters, each initially U(-1/sqrt(H), 1/sqrt(H)): tensor ``(H, D, H)``, weight_ih, weight_hh, bias.
    """

    equation = "h_t = act(A x_1 h_{t-1} x_2 x_t + W_hh h_{t-1} + W_ih x_t + b)"
    count = "N^2 D + N^2"
    step_cost = "O(N^2 D)"
    linear = True
    weight_ih: Tensor
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "tanh",
        initial_state: str = "zero",
        bias: bool = True,
        **options: Any,
    ) -> None:
        options |= {"activation": activation, "initial_state": initial_state, "bias": bias}
        super().__init__(input_size, hidden_size, **options)

    def declare_linear(self, bias: bool, map: MapLike) -> None:
        """W_ih, W_hh under the map, b."""
        self.declare("weight_ih", self.hidden_size, self.input_size)
        self.declare("weight_hh", self.hidden_size, self.hidden_size, map=make_map(map, self.hidden_size))
        if bias:
            self.declare("bias", self.hidden_size)
        else:
            self.register_parameter("bias", None)

    def added(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih + self._eye() if self.residual else self.weight_ih, self.bias

    def product(self, state: Tensor, input: Tensor) -> Tensor:
        """A x_1 h x_2 x + W_hh h, ``(B, H)``."""
        return super().product(state, input) + state @ self.weight_hh.mT


class SecondOrderRNN(Recurrent):
    r"""The second-order recurrent network (2RNN).

    .. math::
        h_t = \phi(\mathcal A \times_1 h_{t-1} \times_2 x_t + V h_{t-1} + U x_t + b), \qquad
        (\mathcal A \times_1 h \times_2 x)_k = \sum_{ij} \mathcal A_{ijk} h_i x_j

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        activation (str): ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``tanh``.
        residual (bool): add the input of a layer to its new state; needs D = H. Default: False.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, ``ones``, or ``trained``, a parameter. Default: ``zero``.
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
        tensor_l[k]: A ``(H, D, H)``, old state, input, new state; weight_ih_l[k]: U ``(H, D)``; weight_hh_l[k]: V
        ``(H, H)``; bias_l[k]: b ``(H)``; each initially U(-1/sqrt(H), 1/sqrt(H)).

    Cost: O(T B H^2 D).

    Source: Giles et al. 1992; as here, Lizaire et al. (2026), Section 2, Definition 2.
    """

    cell = SecondOrderCell
    source = "Giles et al. 1992 (2RNN)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        residual: bool = False,
        **options: Unpack[MatrixOptions],
    ) -> None:
        own: dict[str, Any] = {"activation": activation, "residual": residual}
        super().__init__(input_size, hidden_size, num_layers, **own, **options)
