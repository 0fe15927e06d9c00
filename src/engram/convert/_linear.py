"""Depth of linear networks removed (``flatten``) and added (``deepen``).

Source: Lizaire et al. (2026), Theorem 6 (Appendix A.4) and Theorem 1 (Appendix A.3).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.nn import RNN, LinearRNN

Array = npt.NDArray[Any]


def flat_weights(layers: Sequence[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """U ``(nL, d)``, V ``(nL, nL)`` and b ``(nL)`` of the one layer that computes what L linear layers do.

    h^l_t = U^l h^{l-1}_t + V^l h^l_{t-1} + b^l is a linear combination of the input, all previous states and 1. Its
    coefficients are U^l times those of the layer below, plus V^l and b^l in their places.

    Args:
        layers: U^l, V^l and b^l of each layer; any numbers that numpy multiplies, such as Python integers (object).
    """
    (units, inputs), depth = layers[0][0].shape, len(layers)
    row = np.eye(inputs, inputs + units * depth + 1, dtype=layers[0][0].dtype)
    rows = []
    for number, (into, hidden, bias) in enumerate(layers):
        row = into @ row
        first = inputs + number * units
        row[:, first : first + units] += hidden
        row[:, -1] += bias
        rows.append(row)
    whole = np.vstack(rows)
    return whole[:, :inputs], whole[:, inputs:-1], whole[:, -1]


@torch.no_grad()
def flatten(layer: RNN) -> RNN:
    """One layer of nL units whose state is the states of all L layers of a linear RNN, first layer first.

    ``flatten(layer)(x)[0][..., -n:]`` equals ``layer(x)[0]``. A state ``(L, B, n)`` of the deep network is the state
    ``(1, B, n L)`` of the one layer, side by side. Dropout between the layers is removed.

    Args:
        layer: an :class:`engram.nn.LinearRNN`, or an RNN with activation "identity", of any depth, under any map.

    Example::

        >>> deep = LinearRNN(3, 4, 2)
        >>> flatten(deep)(torch.zeros(7, 5, 3))[0].shape
        torch.Size([7, 5, 8])
    """
    _check(layer, ("identity",), "flattened: one layer without activation computes linear functions only")
    if layer.bidirectional:
        raise OptionError("a bidirectional layer cannot be flattened: its outputs depend on later inputs")
    weights = [(_double(cell.weight_ih), _double(cell.weight_hh), _bias(cell)) for cell in layer.cells]
    flat = _like(layer, layer.hidden_size * layer.num_layers, 1, dropout=0.0)
    cell = flat.cells[0]
    into, hidden, bias = (torch.from_numpy(part) for part in flat_weights(weights))
    cell.weight_ih.copy_(into)
    cell.weight_hh.copy_(hidden)
    if cell.bias is not None:
        cell.bias.copy_(bias)
    if cell.start is not None:
        cell.start.copy_(torch.cat([below.start for below in layer.cells], -1))
    return flat


@torch.no_grad()
def deepen(layer: RNN) -> RNN:
    """The same network with one more layer on top that passes its input on: U = I, V = 0, b = 0, h_0 = 0.

    Args:
        layer: an :class:`engram.nn.RNN` with activation identity or relu, which do not change their own outputs.

    The layers below keep their weights. Matrices under a map become ordinary parameters, since no map contains V = 0.
    """
    _check(layer, ("identity", "relu"), "deepened: the added layer would apply it to its own outputs")
    deeper = _like(layer, layer.hidden_size, layer.num_layers + 1)  # with all numbers of the layers below
    for direction, cell in enumerate(deeper.cells[len(layer.cells) :]):
        for weight in cell.parameters():
            weight.zero_()
        own = slice(direction * layer.hidden_size, (direction + 1) * layer.hidden_size)
        cell.weight_ih[:, own].fill_diagonal_(1)
    return deeper


def _check(layer: RNN, activations: tuple[str, ...], what: str) -> None:
    if not isinstance(layer, RNN):
        raise DTypeError(f"layer must be an engram.nn.RNN; got {type(layer).__name__}")
    cell = layer.cells[0]
    if cell.activation not in activations:
        raise OptionError(f"activation={cell.activation!r} cannot be {what}; it must be {' or '.join(activations)}")
    if cell.weight_ih.is_complex() and cell.output_as not in (None, "complex"):
        raise OptionError(f"output={cell.output_as!r} of complex states is not linear; it must be 'complex'")


def _like(layer: RNN, hidden: int, depth: int, **options: Any) -> RNN:
    """A layer of other sizes with the same options."""
    cell = layer.cells[0]
    kind: type[RNN] = LinearRNN if cell.activation == "identity" else RNN
    options |= {"hidden_size": hidden, "num_layers": depth, "map": "free", "output": cell.output_as}
    options |= {"activation_in": "depth"} if kind is LinearRNN else {}
    return layer.replace(kind, output_all_layers=False, **options)


def _double(weight: Tensor) -> Array:
    """In double precision, so that the products are rounded only once."""
    return weight.to(torch.complex128 if weight.is_complex() else torch.float64).cpu().numpy()


def _bias(cell: Any) -> Array:
    return _double(cell.weight_ih.new_zeros(cell.hidden_size) if cell.bias is None else cell.bias)
