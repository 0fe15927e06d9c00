"""The recurrent arithmetic circuit, and the same with a scale that is kept apart."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import OptionError, check_flag
from engram.maps import MapLike
from engram.nn._cell import Cell
from engram.nn._options import CommonOptions
from engram.nn._recurrent import Recurrent
from engram.nn._unit import unit_rms
from engram.nn.laws import Law, Normal, Orthogonal
from engram.state import Field, State


class RACState(NamedTuple):
    """The state h ``(B, R)``, and product, W_H h ``(B, R)``: before the first step only the second exists."""

    h: Any
    product: Any


class RACCell(Cell):
    """One layer of :class:`RAC`, the recurrent arithmetic circuit: the state is multiplied by the input.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        initial_state (str): ``ones``, W_hh h_0 = 1; or ``trained``, a parameter. Default: ``ones``.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None.
        options: ``bias`` (which :class:`RAC` sets to False), ``map``, ``device`` and ``dtype``, as in :class:`Cell`.

    Parameters: weight_ih ``(H, D)``, initially N(0, 1/D), and weight_hh ``(H, H)``, initially orthogonal (unitary):
        states whose entries are about 1 stay so. With ``trained`` start_product ``(H)``, W_hh h_0.
    State: a :class:`RACState`, h ``(H)`` and product, W_hh h ``(H)``.
    """

    equation = "h_t = (W_hh h_{t-1}) * (W_ih x_t), W_hh h_0 = 1"
    starts: ClassVar[dict[str, float]] = {"ones": 1.0, "trained": 1.0}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        initial_state: str = "ones",
        laws: Mapping[str, Law] | None = None,
        **options: Any,
    ) -> None:
        laws = {"weight_hh": Orthogonal(), "weight_ih": Normal(input_size**-0.5), **(laws or {})}
        super().__init__(input_size, hidden_size, initial_state=initial_state, laws=laws, **options)

    def fields(self) -> Any:
        return RACState(Field(self.hidden_size), self.start_field(self.hidden_size))

    def step(self, drive: Tensor, state: Any) -> Any:
        h = state.product * drive
        return RACState(h, h @ self.weight_hh.mT)


class ScaledRACState(NamedTuple):
    """The state over its scale, W_H times that, and the logarithm of the scale ``(B, 1)``."""

    h: Any
    product: Any
    log_scale: Any


class ScaledRACCell(RACCell):
    """A :class:`RACCell` whose state is brought to a root mean square of 1 at each step.

    Input and output carry the logarithm of their scale as one number more, which the first layer's input lacks.
    """

    def fields(self) -> Any:
        h, product = super().fields()
        return ScaledRACState(h, product, Field(1))

    def drive(self, input: Tensor) -> Tensor:
        """W x + b over its scale, and the logarithm of that: b has the scale 1, whatever that of x is."""
        values, scale = input[..., : self.input_size], input[..., self.input_size :]
        if not scale.shape[-1]:
            return torch.cat([super().drive(values), torch.zeros_like(values[..., :1])], -1)
        drive = F.linear(values, self.weight_ih)
        if self.bias is not None:
            common = torch.where(scale.real > 0, scale, 0.0)  # so that neither factor overflows
            drive, scale = drive * (scale - common).exp() + self.bias * (-common).exp(), common
        return torch.cat([drive, scale], -1)

    def step(self, drive: Tensor, state: Any) -> Any:
        h, size = unit_rms(state.product * drive[..., :-1], (-1,))
        return ScaledRACState(h, h @ self.weight_hh.mT, state.log_scale + drive[..., -1:] + size)

    def output(self, state: Any) -> Tensor:
        return torch.cat([state.h, state.log_scale], -1)


class RAC(Recurrent):
    r"""The recurrent arithmetic circuit: state and input meet in a product.

    .. math:: h^{t,l} = (W_H^l h^{t-1,l}) \odot (W_I^l h^{t,l-1}), \qquad W_H^l h^{0,l} = a^l

    A layer at time t sees the new state of the layer below. There is no activation: the output is a
    polynomial of the inputs, of degree ((T over L)) at depth L, and :mod:`engram.certify` proves how much of the start
    of a sequence it can tell apart. A shallow one is an equal-core tensor train with the core
    :math:`G^{k'dk} = W_{I,kd} W_{H,kk'}` (:meth:`core`).

    The state is :class:`RACState`: h, and W_H h. Before the first step it is a, which need not be W_H h for any h.

    Args:
        input_size (int): M, how many numbers encode an input.
        hidden_size (int): R, the channels of a layer.
        num_layers (int): L, the depth. Default: 1.
        initial_state (str): ``ones``, a = 1; or ``trained``, a parameter. Default: ``ones``.
        log_scale (bool): keep every state at a root mean square of 1 and the logarithm of its scale beside it, in
            ``state.log_scale``: a product over thousands of steps neither overflows nor vanishes. The output is then h
            divided by its scale, with the same arg max after a linear read-out. Runs as a Python loop. Default: False.
        bias (bool): add a bias to W_I x; the theory has none. Default: False.
        map (str, Map or callable): what the recurrent matrix stays during training: a name of ``engram list maps``, an
            :class:`engram.maps.Map`, or a function from a size to one. Default: ``free``, any matrix.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.

    Inputs: input, (h_0, product_0)
        input: ``(T, B, M)``; ``(B, T, M)`` with ``batch_first``; ``(T, M)`` unbatched; or a PackedSequence.
        h_0, product_0: ``(L*directions, B, R)`` each (no B if unbatched); only the product W_H h_0 is used. Default:
        the initial state.

    Outputs: output, (h_n, product_n)
        output: ``(T, B, directions*R)``, in the form of the input.
        (h_n, product_n): a :class:`RACState` of the last step; with ``log_scale`` a third field ``(..., 1)``.

    Attributes:
        weight_ih_l[k]: W_I ``(R, M)``, initially N(0, 1/M); weight_hh_l[k]: W_H ``(R, R)``, initially orthogonal.

    Source: Levine et al. 2017; deep circuits, Ziv (2019), Section 2.1.
    """

    cell = RACCell
    source = "Levine et al. 2017 (RAC)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        initial_state: str = "ones",
        log_scale: bool = False,
        bias: bool = False,
        map: MapLike = "free",
        **options: Unpack[CommonOptions],
    ) -> None:
        if check_flag("log_scale", log_scale) and (options.get("bidirectional") or options.get("dropout")):
            raise OptionError(
                "log_scale is one number for a whole state, which two directions and dropout do not leave so: "
                "use it without bidirectional and dropout"
            )
        if log_scale:
            self.cell = ScaledRACCell  # type: ignore[misc] # of this layer alone
        self.log_scale = log_scale
        super().__init__(input_size, hidden_size, num_layers, bias, initial_state=initial_state, map=map, **options)

    def _layers(self, data: Tensor, starts: list[State], sizes: Tensor | None) -> tuple[list[Tensor], list[State]]:
        layers, finals = super()._layers(data, starts, sizes)
        return [layer[..., : self.hidden_size] for layer in layers] if self.log_scale else layers, finals

    def core(self) -> Tensor:
        """G ``(R, M, R)`` of a shallow circuit as a tensor train: G[k', d, k] = W_I[k, d] W_H[k, k']."""
        if self.num_layers != 1 or self.bidirectional:
            raise OptionError(
                f"only a circuit of one layer is a tensor train (no tensor network copies a vector), got {self}"
            )
        cell = self.cells[0]
        return torch.einsum("kd,kj->jdk", cell.weight_ih, cell.weight_hh)
