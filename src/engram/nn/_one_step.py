"""One step of a whole layer without a gradient: what a program does that makes text, token by token.

The state of all cells is copied once and changed in place, cell by cell, instead of being taken apart and stacked.
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops import step_in_place
from engram.maps import observed
from engram.nn._bare_cell import BareCell
from engram.nn._parametrized import with_built_weights
from engram.state import State, parts


def one_step(layer: Any, input: Any, hx: State) -> tuple[Tensor, State] | None:
    """Output and state of a layer; None where the ordinary way must be gone, which also says what is wrong."""
    if hx is None or type(input) is not Tensor or input.dim() != 3 or input.shape[layer.batch_first] != 1:
        return None
    if not _is_simple(layer) or observed():
        return None
    cells = list(layer.cells)
    fields, batch = cells[0].known_fields, input.shape[not layer.batch_first]
    state = _copied(hx, fields, len(cells), batch)
    if state is None or not input.is_contiguous():
        return None
    data = input.view(1, batch, input.shape[-1])
    for k, cell in enumerate(cells):
        if type(cell).run is not BareCell.run:
            return None
        output = step_in_place(with_built_weights(cell), data, [field[k] for field in state])
        if output is None:
            return None
        data = output
    kind = type(fields) if isinstance(fields, tuple) else None
    new: State = state[0] if kind is None else tuple(state) if kind is tuple else kind(*state)
    return (data.transpose(0, 1) if layer.batch_first else data), new


def _is_simple(layer: Any) -> bool:
    """Whether the layer is nothing but its cells, one after the other."""
    special = layer.bidirectional or layer.output_all_layers or layer.check_finite or not layer.return_sequence
    return not (special or (layer.dropout and layer.training) or "parametrizations" in layer._modules)


def _copied(state: State, fields: Any, cells: int, batch: int) -> list[Tensor] | None:
    """The tensors of a state ``(L, B, *shape)``, to be changed in place; None if its form is another."""
    given, wanted = parts(state), parts(fields)
    if isinstance(state, tuple) != isinstance(fields, tuple) or len(given) != len(wanted):
        return None
    for tensor, field in zip(given, wanted, strict=True):
        if type(tensor) is not Tensor or field.grows or tensor.shape != (cells, batch, *field.shape):
            return None
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in given]
