"""What the LSTM and the GRU share: torch's weights with two biases, layer normalisation, chrono biases, conversion."""

from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, check_flag, check_size
from engram.nn._bare_cell import BareCell
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Chrono, Constant, Law, Uniform, ZeroBlocks

AnyLayer = TypeVar("AnyLayer", bound=Recurrent)

EPSILON = 1e-5
"""Added to a variance before its root, as torch.nn.LayerNorm does."""
SHARED = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
"""What our layer and torch's are both made with."""


class GateCell(BareCell):
    """A cell with the weights of torch.nn.LSTM and torch.nn.GRU, in their order and by their law.

    Parameters, each U(-1/sqrt(H), 1/sqrt(H)):
        weight_ih ``(G*H, D)``, weight_hh ``(G*H, P)``, and with ``bias`` bias_ih ``(G*H)``, bias_hh ``(G*H)``; P is the
        size of what goes back, H without a projection.

    With ``layer_norm`` also gain_ih and gain_hh ``(G*H)``, 1 at the start, and the biases start at 0. With ``chrono``
    the biases of the gates that keep and take follow :class:`engram.nn.laws.Chrono`.

    Class attributes:
        gates: G, the number of blocks.
        keep, take: the numbers of the gate that keeps the old state, and of the one that takes in the new.
    """

    gates: ClassVar[int]
    keep: ClassVar[int]
    take: ClassVar[int | None] = None

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    gain_ih: Tensor | None
    gain_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        layer_norm: bool = False,
        chrono: int | None = None,
        **options: Any,
    ) -> None:
        check_real(type(self).__name__, options.get("dtype"))
        super().__init__(input_size, hidden_size, **options)
        self.layer_norm = check_flag("layer_norm", layer_norm)
        self.chrono = None if chrono is None else check_size("chrono", chrono, least=2)
        if chrono is not None and not bias:
            raise OptionError(f"chrono={chrono} sets the biases of gates, and bias=False leaves none. Use bias=True")
        rows = self.gates * hidden_size
        self.declare("weight_ih", rows, input_size)
        self.declare("weight_hh", rows, self.fed_back_size)
        for name, law in zip(("bias_ih", "bias_hh"), self._bias_laws(), strict=True):
            self.declare_if(bias, name, rows, law=law)
        self.declare_projection()
        for name in ("gain_ih", "gain_hh"):
            self.declare_if(layer_norm, name, rows, law=Constant(1.0))

    @property
    def fed_back_size(self) -> int:
        """P, the size of what goes back into the gates."""
        return self.hidden_size

    def declare_projection(self) -> None:
        """Further weights, for a cell that has some: here torch has its own."""

    def declare_if(self, wanted: bool, name: str, *shape: int, law: Law | None = None) -> None:
        """A parameter, or None in its place."""
        if wanted:
            self.declare(name, *shape, law=law)
        else:
            self.register_parameter(name, None)

    def _bias_laws(self) -> tuple[Law, Law]:
        rest: Law = Constant(0.0) if self.layer_norm else Uniform()
        if self.chrono is None:
            return rest, rest
        set_here = (self.keep,) if self.take is None else (self.keep, self.take)
        return Chrono(self.chrono, self.keep, self.take, rest), ZeroBlocks(set_here, rest)

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in ("layer_norm", "chrono") if getattr(self, name)]
        return ", ".join([super().extra_repr(), *shown])


def normalised(rows: Tensor, gain: Tensor) -> Tensor:
    """Every row with mean 0 and variance 1, times the gain (Ba et al. 2016)."""
    centred = rows - rows.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPSILON) * gain


def check_real(name: str, dtype: torch.dtype | None) -> None:
    """Refuse complex weights for a cell whose equation is of real numbers."""
    kind = dtype or torch.get_default_dtype()
    if kind.is_complex:
        raise DTypeError(
            f"{name} is a recurrence of real numbers and needs a real dtype; got {kind}. "
            "Use dtype=torch.float32 or torch.float64"
        )


def from_torch(kind: type[AnyLayer], module: nn.RNNBase, theirs: type[nn.RNNBase], *more: str) -> AnyLayer:
    """A layer of ``kind`` equal to a module of torch's class ``theirs``; ``more`` names further arguments of both."""
    if type(module) is not theirs:
        raise DTypeError(f"{kind.__name__}.from_torch takes a torch.nn.{theirs.__name__}, got {type(module).__name__}")
    weight: Any = module.weight_ih_l0
    options = {name: getattr(module, name) for name in (*SHARED, *more)}
    layer = kind(**options, device=weight.device, dtype=weight.dtype)
    layer.load_state_dict(module.state_dict())
    return layer.train(module.training)


def to_torch(layer: Recurrent, theirs: Any, *more: str) -> Any:
    """A module of torch's class equal to a layer."""
    cell = layer.cells[0]
    if cell.layer_norm or cell.has_trained_start:
        raise OptionError(
            f"torch.nn.{theirs.__name__} has no layer normalisation and starts from zero; this layer has "
            f"layer_norm={cell.layer_norm}, initial_state={cell.start_from!r}"
        )
    options = {name: getattr(layer, name) for name in (*SHARED, *more)}
    module = theirs(**options, device=cell.reference_weight.device, dtype=cell.reference_weight.dtype)
    module.load_state_dict(layer.state_dict())
    return module.train(layer.training)
