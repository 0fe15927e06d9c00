"""The additive recurrence as a function of its tensors, run by the loop of the cell that has these as its weights."""

import torch
from torch import Tensor

from engram.loops import chosen, compiled_cell
from engram.nn import BareCell, RNNCell


def with_weights(cell: BareCell, **tensors: Tensor | None) -> BareCell:
    """The cell with these tensors, leaves of the caller's graph, in place of its parameters."""
    for name, tensor in tensors.items():
        if tensor is not None:
            delattr(cell, name)
            setattr(cell, name, tensor)
    assert not list(cell.parameters()), "every weight is given"
    cell._reference = next(t for t in tensors.values() if t is not None).new_empty(0)
    return in_c(cell)


def in_c(cell: BareCell) -> BareCell:
    """The same cell; where C is asked for and may run, it does: never a silent fallback."""
    if chosen() == "compiled" and cell.reference_weight.dtype in (torch.float32, torch.float64):
        found = compiled_cell(cell)
        if found.reason.startswith("the step fails"):
            return cell  # weights that do not fit: the plain loop says so
        assert found.traced is not None, (found.reason, found.line)
        for hoist in (True, False):
            loops = found.variant(hoist=hoist, rebuild=True).loops
            assert loops is not None
            assert loops.ready(), loops.reason()
    return cell


def additive_cell(
    weight_ih: Tensor, bias: Tensor | None, weight_hh: Tensor, mod_bias: Tensor | None = None, activation: str = "tanh"
) -> BareCell:
    """h_t = act(W_hh h_{t-1} + W_ih x_t + b)."""
    (hidden, features), dtype = weight_ih.shape, weight_ih.dtype
    cell = RNNCell(features, hidden, bias=bias is not None, activation=activation, device="meta", dtype=dtype)
    return with_weights(cell, weight_ih=weight_ih, bias=bias, weight_hh=weight_hh, mod_bias=mod_bias)


def additive(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None = None,
    sizes: Tensor | None = None,
    activation: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """All states and the last one, by ``RNNCell.run``."""
    return additive_cell(weight_ih, bias, weight_hh, mod_bias, activation).run(input, start, sizes, reverse)


def additive_last(
    input: Tensor,
    weight_ih: Tensor,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    mod_bias: Tensor | None = None,
    sizes: Tensor | None = None,
    activation: str = "tanh",
    reverse: bool = False,
) -> Tensor:
    """The last state alone, by ``RNNCell.last``."""
    return additive_cell(weight_ih, bias, weight_hh, mod_bias, activation).last(input, start, sizes, reverse)
