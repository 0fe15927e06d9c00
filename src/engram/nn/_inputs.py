"""What comes into a layer: checked, and brought to the one form the cells know (time first, batched or packed)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from engram.errors import DTypeError, NonFiniteError, OptionError, ShapeError
from engram.state import in_dtype


class Rows(NamedTuple):
    """An input in the form of the loops, and how to bring the results back to the caller's form."""

    data: Tensor  # (T, B, D), or (rows, D) if packed
    sizes: Tensor | None  # rows alive at each step, if packed
    batch: int
    restore: Callable[[Tensor], Tensor | PackedSequence]  # for a sequence (T, B, H)
    enter: Callable[[Tensor], Tensor]  # for a state given: (K, B, ...) in the order of the rows
    leave: Callable[[Tensor], Tensor]  # for a state returned
    leave_last: Callable[[Tensor], Tensor]  # for a last step returned: (B, H)


def rows_of(input: Tensor | PackedSequence, features: int, batch_first: bool) -> Rows:
    """Bring an input to :class:`Rows`."""
    if isinstance(input, PackedSequence):
        if torch.compiler.is_exporting():
            raise OptionError(
                "a layer is exported for a padded batch (time, batch, features), got a PackedSequence, whose number of "
                "rows differs from step to step. Use torch.nn.utils.rnn.pad_packed_sequence"
            )
        return _packed(input, features)
    if not isinstance(input, Tensor):
        raise DTypeError(
            f"input must be a Tensor or a PackedSequence, got {type(input).__name__}. Use torch.as_tensor(input)"
        )
    layout = "(batch, time, features)" if batch_first else "(time, batch, features)"
    if input.dim() not in (2, 3):
        raise ShapeError(
            f"input must be {layout}, or (time, features) for one sequence; got {input.dim()} dimensions, "
            f"shape {tuple(input.shape)}. Add the axis that is missing (unsqueeze), or flatten those too many"
        )
    if input.shape[-1] != features:
        swapped = input.dim() == 3 and features in input.shape[:2]
        mend = "Are the axes in that order?" if swapped else f"Make the layer with input_size={input.shape[-1]}"
        raise ShapeError(
            f"input must be {layout} with {features} features (input_size), got {tuple(input.shape)}. {mend}"
        )
    if input.shape[1 if batch_first and input.dim() == 3 else 0] == 0:
        raise ShapeError(
            f"input must hold at least one step, as torch.nn.RNN asks for too; got {tuple(input.shape)}, which is "
            f"{layout if input.dim() == 3 else '(time, features)'}. Leave empty sequences out"
        )
    if input.dim() == 2:
        return Rows(input.unsqueeze(1), None, 1, _squeeze, lambda s: s.unsqueeze(1), _squeeze, lambda y: y.squeeze(0))
    if batch_first:
        return Rows(input.transpose(0, 1), None, input.shape[0], lambda y: y.transpose(0, 1), _same, _same, _same)
    return Rows(input, None, input.shape[1], _same, _same, _same, _same)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _squeeze(tensor: Tensor) -> Tensor:
    return tensor.squeeze(1)


def _packed(input: PackedSequence, features: int) -> Rows:
    data, sizes, order, back = input
    if data.dim() != 2 or data.shape[-1] != features:
        raise ShapeError(
            f"a PackedSequence must hold (rows, {features}) data (input_size {features}), got {tuple(data.shape)}. "
            "If it was packed from (batch, time, features), pass batch_first=True to pack_padded_sequence"
        )
    if bool((sizes[1:] > sizes[:-1]).any()):
        raise ShapeError("a PackedSequence must have sizes that never grow; build it with pack_padded_sequence")
    if int(sizes.sum()) != len(data):
        raise ShapeError(
            f"a PackedSequence must hold one row for every sequence alive at every step: {int(sizes.sum())} by its "
            f"batch_sizes, got {len(data)}. Build it with pack_padded_sequence"
        )
    return Rows(
        data,
        sizes,
        int(sizes[0]),
        lambda y: PackedSequence(y, sizes, order, back),
        lambda s: s if order is None else s.index_select(1, order),
        lambda s: s if back is None else s.index_select(1, back),
        lambda y: y if back is None else y.index_select(0, back),
    )


def check_dtype(data: Tensor, weight: Tensor) -> Tensor:
    """The input in the dtype of the weights."""
    return in_dtype(data, weight.dtype, weight.device)


def check_finite(data: Tensor) -> None:
    """Refuse NaN and infinity, saying how many and where the first one is."""
    wrong = ~torch.isfinite(data)
    if bool(wrong.any()):
        where = tuple(int(i) for i in wrong.nonzero()[0])
        raise NonFiniteError(
            f"input must be finite (check_finite=True): {int(wrong.sum())} of {data.numel()} values are NaN "
            f"or infinite, the first at {where}. Mend the data, or pass check_finite=False"
        )


def check_dropout(dropout: float, name: str = "dropout") -> float:
    """A probability below one."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise OptionError(f"{name} must be a number in [0, 1), the probability of dropping a unit; got {dropout!r}")
    return float(dropout)
