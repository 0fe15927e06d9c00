"""Networks that solve a task by weights written down, without training.

:func:`explicit_copy` solves the copying problem, :func:`explicit_adding` the adding problem.
Source: Henaff et al. 2016; also Kerg (2022), Appendix D.2.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import check_choice, check_size
from engram.maps import henaff_copy
from engram.nn._gated import HenaffRNN

__all__ = ["explicit_adding", "explicit_copy"]

SYMBOLS, BLANK, CUE = 8, 0, 9


@torch.no_grad()
def explicit_copy(
    pairs: int,
    delay: int,
    length: int = 10,
    *,
    layout: str = "after",
    activation: str = "identity",
    generator: torch.Generator | None = None,
) -> tuple[HenaffRNN, nn.Linear]:
    """A layer of 2 pairs + 1 units and a readout that solve :class:`engram.tasks.Copy` with high probability.

    Each symbol is stored as a random unit vector; the matrix rotates pairs of coordinates so that V^(delay + length) =
    I, and a symbol comes back to where it was when it is due. The last unit remembers that the cue has come. Symbols
    disturb each other by about sqrt(length / 2 pairs): nearly every sequence is right at 256 pairs (768 for
    ``layout="after"``).

    Args:
        pairs: how many pairs of units store symbols, an int of at least 1.
        delay: steps from the last symbol to the first answer.
        length: the symbols to remember. Default: 10.
        layout: the answer starts the step ``after`` the cue, or ``at`` it. Default: ``after``.
        activation: ``identity`` or ``relu``, of the input. Default: ``identity``.
        generator: of the random unit vectors and angles. Default: None, torch's own.

    Returns:
        a :class:`engram.nn.HenaffRNN` and a ``torch.nn.Linear`` readout, both in float64.
    """
    check_size("pairs", pairs)
    check_choice("layout", layout, ("after", "at"))
    width = 2 * pairs
    layer = HenaffRNN(SYMBOLS + 2, width + 1, activation=activation, bias=False, dtype=torch.float64)
    readout = nn.Linear(width + 1, SYMBOLS + 1, dtype=torch.float64)
    cell = layer.cells[0]
    cell.weight_hh.zero_()[:width, :width] = henaff_copy(width, delay + length, generator)
    cell.weight_hh[width, width] = 1.0

    directions = torch.randn(SYMBOLS + 1, width, generator=generator, dtype=torch.float64)
    directions = F.normalize(directions.relu() if activation == "relu" else directions, dim=1)
    symbols, cue = directions[:SYMBOLS], directions[SYMBOLS]
    cell.weight_ih.zero_()[:width, 1 : SYMBOLS + 1] = symbols.mT
    cell.weight_ih[width, CUE] = 1.0
    readout.bias.zero_()[BLANK] = 2.0
    readout.weight.zero_()[1:, :width] = symbols
    readout.weight[BLANK, width] = -4.0
    if layout == "after":  # at the cue itself the answer is still blank
        cell.weight_ih[:width, CUE] = cue
        readout.weight[BLANK, :width] = 4 * cue
    return layer, readout


@torch.no_grad()
def explicit_adding() -> tuple[HenaffRNN, Tensor]:
    """One unit that solves the adding problem exactly: h_t = ReLU(value + mark - 1) + h_{t-1}; the answer is h.

    A mark of 1 lets the value through, a mark of 0 nothing, since values are at most 1.

    Returns:
        a :class:`engram.nn.HenaffRNN` of one unit, and the readout matrix ``(1, 1)``, which is 1; both in float64.
    """
    layer = HenaffRNN(2, 1, activation="relu", dtype=torch.float64)
    cell = layer.cells[0]
    cell.weight_ih.fill_(1.0)
    cell.weight_hh.fill_(1.0)
    cell.bias.fill_(-1.0)
    return layer, torch.ones(1, 1, dtype=torch.float64)
