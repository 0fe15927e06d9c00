"""The weights of the orthogonal network for a contractive one, cell by cell."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from engram.convert._dilation import state_bound, unit_slack
from engram.errors import OptionError
from engram.maps import orthogonality_error
from engram.nn import RNN

MARGIN = 1 + 2**-10  # factor on the bias, so that rounding does not make an added unit positive


def excess(cell: Any) -> float:
    """The square of the norm minus 1, minus what rounding explains; negative for a contraction."""
    square = float(torch.linalg.matrix_norm(cell.weight_hh.double(), 2)) ** 2
    return square - 1 - unit_slack(cell.hidden_size, cell.weight_hh.dtype)


def unit(cell: Any) -> bool:
    """Whether the norm is 1 up to rounding, or above 1 (and so will be clipped to 1)."""
    return excess(cell) >= -2 * unit_slack(cell.hidden_size, cell.weight_hh.dtype)


def wider(layer: RNN | nn.RNN, bare: RNN, width: int) -> RNN:
    """An orthogonal network of this width with the options of ``layer``; ``bare`` is that layer without its map."""
    with torch.random.fork_rng(devices=()):  # all weights will be overwritten
        wide = bare.replace(RNN, hidden_size=width, bias=True, dropout=0.0, map="projected", activation="relu")
    return wide.train(layer.training)


def fill(cell: Any, old: Any, matrix: Tensor, incoming: float, steps: int | None, upper: bool) -> dict[str, Any]:
    """Set the weights of one cell of the orthogonal network.

    Args:
        cell: of the orthogonal network.
        old: of the contractive network.
        matrix: the dilation of its W, of at most the size of ``cell``.
        incoming: the largest norm of its input.
        steps: the longest sequence; None: any.
        upper: whether the input is the output of the layer below, rather than that of the network.

    Returns: numbers for the report.
    """
    n, used, dtype = old.hidden_size, len(matrix), old.reference_weight.dtype
    zero = old.reference_weight.new_zeros(n, dtype=torch.float64)
    bias, start = zero if old.bias is None else old.bias.double(), zero if old.start is None else old.start.double()
    norm = max(float(torch.linalg.matrix_norm(old.weight_hh.double(), 2)), 1.0 if unit(old) else 0.0)
    drive = float(torch.linalg.matrix_norm(old.weight_ih.double(), 2)) * incoming + float(bias.norm())
    bound = state_bound(norm, drive, float(start.norm()), steps)
    rows = matrix[n:, :n]
    if len(rows) and not math.isfinite(bound):
        raise OptionError(
            "with a matrix of norm 1 the states may grow without limit, so no bias keeps the added units at 0: "
            "give steps, the length of the longest sequence"
        )
    reach = torch.linalg.vector_norm(rows if bool((start < 0).any()) else rows.clamp(min=0), dim=1)
    silent = -MARGIN * reach * bound if len(rows) else reach
    whole = torch.eye(cell.hidden_size, dtype=torch.float64, device=matrix.device)  # units that are not needed stay 0
    whole[:used, :used] = matrix
    cell.weight_hh = whole.to(dtype)
    for weight in (cell.weight_ih, cell.bias, *(() if cell.start is None else (cell.start,))):
        weight.zero_()
    if upper:  # of each direction of the layer below, the first n outputs are the old ones
        for part, columns in zip(cell.weight_ih[:n].split(cell.hidden_size, 1), old.weight_ih.split(n, 1), strict=True):
            part[:, :n] = columns
    else:
        cell.weight_ih[:n] = old.weight_ih
    cell.bias[:n], cell.bias[n:used] = bias, silent
    if cell.start is not None:
        cell.start[:n] = start
    return {
        "states": n,
        "states_used": used,
        "added": used - n,
        "state_bound": bound,
        "bias_bound": float(silent.min()) if len(rows) else 0.0,
        "orthogonality_error": orthogonality_error(cell.weight_hh.double()),
    }
