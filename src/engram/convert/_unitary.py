"""Contractive ReLU networks as orthogonal ones.

Source: Emami et al. (2019), Theorem 3.1 (Theorem 1 of the poster); the construction is in docs/convert.md.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.convert._dilation import clipped, dilation
from engram.convert._unitary_cell import MARGIN, excess, fill, unit, wider
from engram.convert._unitary_check import apart, compare
from engram.errors import DTypeError, ManifoldError, OptionError, ShapeError, check_size
from engram.nn import RNN


@dataclass(frozen=True)
class Conversion:
    """An orthogonal network that computes what a contractive one does."""

    layer: RNN
    """The orthogonal network: weight_hh of every cell is orthogonal, and stays orthogonal in further training."""
    selection: Tensor
    """The indices of the output features that are those of the contractive network; the others are zero."""
    report: dict[str, Any]
    """What was done and measured, as numbers and texts that JSON has."""

    def __call__(self, input: Tensor, state: Tensor | None = None) -> tuple[Any, Tensor]:
        """The output of the contractive network, and the state of the orthogonal one."""
        output, state = self.layer(input, state)
        if isinstance(output, tuple):
            return tuple(each[..., self.selection] for each in output), state
        return output[..., self.selection], state

    @property
    def bias_bound(self) -> float:
        """The lowest bias of an added unit."""
        return float(min(cell["bias_bound"] for cell in self.report["cells"]))


@torch.no_grad()
def to_orthogonal(
    layer: RNN | nn.RNN,
    *,
    input_bound: float | str = "auto",
    data: Tensor | None = None,
    steps: int | None = None,
    contract: bool = False,
) -> Conversion:
    r"""The orthogonal ReLU network of n + k <= 2n units per layer with the same outputs as a contractive one.

    .. math::
        h_t = \phi(W_u h_{t-1} + (F; 0) x_t + (b; b_2))

    W_u is orthogonal, W is its upper left corner (:func:`dilation`), and k is the rank of I - W^T W. The first n units
    compute the old network as long as the k new ones are 0. They are, since their biases are at most
    b_2 = -\|(D_i)_+\| M_h, with D_i a row of the lower left corner, (D_i)_+ its positive entries (all entries if the
    initial state has negative ones), and M_h a bound on the states (:func:`state_bound`). The states of a layer are the
    inputs of the next one. All layers have the width of the widest one; units that a layer does not need stay 0.
    Dropout is removed; a trained initial state is kept.

    The outputs are equal for inputs with \|x_t\| <= ``input_bound``, from the network's own initial state. Larger
    inputs may come in practice (Gaussian ones have no bound), so choose ``input_bound`` with care.

    Args:
        layer: an :class:`engram.nn.RNN` with activation relu in the recurrence, or ``torch.nn.RNN`` with
            nonlinearity="relu"; of any depth, in one direction or both, under any map.
        input_bound: M_x, the largest Euclidean norm of one step of the input; ``"auto"`` takes it from ``data``.
        data: inputs as the layer takes them; the two networks are compared on them.
        steps: the length of the longest sequence. Needed only if a matrix has norm 1, when the states may grow without
            limit; otherwise it makes the bound smaller. Default: the length of ``data`` if it is needed, else any.
        contract: if the norm is above 1, convert the nearest network with norm 1 (singular values clipped to 1). That
            is a different network: the report says so, and how much its outputs on ``data`` differ.

    Example::

        >>> rnn = RNN(2, 4, activation="relu", dtype=torch.float64)
        >>> rnn.weight_hh_l0 = nn.Parameter(rnn.weight_hh_l0.detach() / 2)
        >>> to_orthogonal(rnn, input_bound=3.0).layer.hidden_size
        8
    """
    before = _prepared(layer)
    data = None if data is None else _time_first(before, data)
    bound, limit = _input_bound(before, input_bound, data), None if steps is None else check_size("steps", steps)
    if data is not None and limit is None and any(unit(cell) for cell in before.cells):
        limit = len(data)
    norms = [float(torch.linalg.matrix_norm(cell.weight_hh.double(), 2)) for cell in before.cells]
    expansive = [cell for cell in before.cells if excess(cell) > 0]
    if expansive and not contract:
        raise ManifoldError(
            "the spectral norm of W_hh must be below 1 (a contractive network); this one has "
            f"{', '.join(f'{norm:.6g}' for norm in norms)}: give contract to convert the nearest such network"
        )
    given = copy.deepcopy(before)
    for cell in expansive:
        cell.weight_hh.copy_(clipped(cell.weight_hh))
    matrices = [dilation(cell.weight_hh) for cell in before.cells]
    after = wider(layer, before, max(map(len, matrices)))
    cells, incoming = [], bound
    for first in range(0, len(matrices), before.directions):
        outgoing = []
        for place in range(first, first + before.directions):
            facts = fill(after.cells[place], before.cells[place], matrices[place], incoming, limit, first > 0)
            cells.append({"norm": norms[place], **facts})
            outgoing.append(facts["state_bound"])
        incoming = math.hypot(*outgoing)
    wide, n = after.hidden_size, before.hidden_size
    selection = torch.cat([torch.arange(n) + wide * d for d in range(before.directions)]).to(
        after.cells[0].reference_weight.device
    )
    report = {
        "states": n,
        "states_used": max(cell["states_used"] for cell in cells),
        "input_bound": bound,
        "steps": limit,
        "contracted": bool(expansive),
        "moved_by_contraction": apart(given, before, data) if expansive and data is not None else None,
        "orthogonality_error": max(cell["orthogonality_error"] for cell in cells),
        "cells": cells,
        **compare(before, after, selection, bound, limit, data),
    }
    return Conversion(after, selection, report)


def _prepared(layer: RNN | nn.RNN) -> RNN:
    """A copy of the layer without maps, after checks."""
    if type(layer) is nn.RNN:
        layer = RNN.from_torch(layer)
    if not isinstance(layer, RNN):
        raise DTypeError(f"layer must be an engram.nn.RNN or torch.nn.RNN with relu; got {type(layer).__name__}")
    cell = layer.cells[0]
    if cell.activation != "relu" or cell.activation_in != "recurrence":
        raise OptionError(
            "activation must be relu, in the recurrence: others cannot keep the added units at 0 (docs/convert.md); "
            f"this layer has activation={cell.activation!r}, activation_in={cell.activation_in!r}"
        )
    if not all(bool(torch.isfinite(weight).all()) for weight in layer.parameters()):
        raise OptionError("the weights of the layer must be finite; it has NaN or infinity")
    return layer.fold()


def _time_first(layer: RNN, data: Tensor) -> Tensor:
    """Inputs of this layer in the form ``(T, B, D)``."""
    if data.dim() not in (2, 3) or data.shape[-1] != layer.input_size or not data.numel():
        form = "(B, T, D)" if layer.batch_first else "(T, B, D)"
        raise ShapeError(f"data must be inputs {form} with D = {layer.input_size}, got {tuple(data.shape)}")
    if data.dim() == 2:
        return data[:, None]
    return data.transpose(0, 1) if layer.batch_first else data


def _input_bound(layer: RNN, given: float | str, data: Tensor | None) -> float:
    """M_x: the given number, if the data are within it; or for "auto" the largest norm in the data."""
    largest = 0.0 if data is None else float(torch.linalg.vector_norm(data.double(), dim=-1).max())
    if given == "auto":
        if data is None:
            raise OptionError("input_bound='auto' needs data to take the bound from: give data or a number")
        given = largest
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
        raise OptionError(f"input_bound must be 'auto' or a finite number that is not negative, got {given!r}")
    if largest > given * MARGIN:
        raise OptionError(f"input_bound must cover the data, whose largest norm is {largest:.6g}; got {given}")
    return float(given)
