"""Any layer with the state of torch.nn.LSTM, for programs that are written for it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from engram.errors import DTypeError, OptionError
from engram.nn._recurrent import Recurrent
from engram.state import each, parts

Pair = tuple[Tensor, Tensor]


class AsLSTM(nn.Module):
    """A layer that takes and returns the pair ``(h, c)`` of ``torch.nn.LSTM``.

    For programs that unpack two states, store them and clear them with zeros (sb3-contrib's RecurrentPPO does). A layer
    whose state is one tensor keeps it in ``h``, and ``c`` stays zero; one with two (RAC) fills both. A row of zeros in
    both is a fresh start, also where the layer itself starts elsewhere.

    Args:
        layer: an engram layer with real states of ``hidden_size`` numbers.

    Inputs: input, hx
        input: as the layer takes it.
        hx: ``(h, c)``, both ``(L*directions, B, H)`` (no B if unbatched). Default: the initial state of the layer.

    Outputs: output, (h, c)

    Attributes: ``layer``, and of it ``input_size``, ``hidden_size``, ``num_layers``, ``batch_first``, ``dropout``,
    ``bidirectional``; ``proj_size`` is 0.

    >>> from engram.nn import AsLSTM, ExpRNN
    >>> output, (h, c) = AsLSTM(ExpRNN(3, 5))(torch.zeros(7, 2, 3))
    >>> h.shape, c.shape
    (torch.Size([1, 2, 5]), torch.Size([1, 2, 5]))
    """

    proj_size = 0

    def __init__(self, layer: Recurrent) -> None:
        super().__init__()
        if not isinstance(layer, Recurrent):
            raise DTypeError(f"AsLSTM takes a layer of engram.nn, got {type(layer).__name__}")
        cell, size = layer.cells[0], layer.hidden_size
        fields = parts(cell.fields())
        plain = all(f.shape == (size,) and f.dtype is None and not f.grows for f in fields) and len(fields) <= 2
        if cell.reference_weight.is_complex() or cell.output_size != size or not plain:
            shapes = " and ".join(str(field.shape) for field in fields)
            raise OptionError(
                f"AsLSTM needs a layer with one or two real states of hidden_size numbers, as nn.LSTM has; a state of "
                f"{type(layer).__name__}({size}) has the shape {shapes}, and numbers of {cell.reference_weight.dtype}"
            )
        self.layer = layer
        for name in ("input_size", "hidden_size", "num_layers", "batch_first", "dropout", "bidirectional"):
            setattr(self, name, getattr(layer, name))

    def forward(self, input: Tensor | PackedSequence, hx: Pair | None = None) -> tuple[Any, Pair]:
        output, state = self.layer(input, None if hx is None else self._state(*hx))
        return output, (state, torch.zeros_like(state)) if isinstance(state, Tensor) else tuple(state)

    def _state(self, h: Tensor, c: Tensor) -> Any:
        """The state of the layer: its start in the rows that are zero."""
        batch = h.shape[1] if h.dim() == 3 else 1
        start = self.layer.initial_state(batch)
        fresh = ((h == 0) & (c == 0)).all(-1, keepdim=True)
        given = h if isinstance(start, Tensor) else type(start)(h, c)
        return each(lambda now, first: torch.where(fresh, first.reshape(now.shape), now), given, start)

    def flatten_parameters(self) -> None:
        """Nothing to do. Here because programs for torch.nn call it."""
