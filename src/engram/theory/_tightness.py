"""An orthogonal network may need twice the states: the proof, followed in numbers.

Statement: Emami et al. (2019), Theorem 3.2 (Theorem 2 of the poster). The proof by counting dimensions is in
docs/convert.md.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.convert import Conversion, to_orthogonal
from engram.errors import OptionError, check_size
from engram.nn import RNN
from engram.theory._memoryless import Candidate

TRIES = 100  # random pairs of inputs
TOLERANCE = 1e-9  # singular values up to this count as zero


@torch.no_grad()
def memoryless_twin(n: int, input_bound: float) -> Conversion:
    """y_t = relu(x_t) of n numbers (W = 0, F = I) as an orthogonal network, which has 2n states.

    Args:
        n: numbers per step.
        input_bound: the largest Euclidean norm of one step of the input.
    """
    layer = RNN(check_size("n", n), n, activation="relu", dtype=torch.float64)
    cell = layer.cells[0]
    for weight in (cell.weight_hh, cell.bias):
        weight.zero_()
    cell.weight_ih.copy_(torch.eye(n))
    return to_orthogonal(layer, input_bound=input_bound)


@dataclass(frozen=True)
class DimensionCount:
    """The numbers of the proof at one pair of inputs x_0, x_1 > 0.

    P_0, P_1 project on the units that are positive at the two steps, E_k = range(P_k F), O = ker C within range P_1. If
    the network is y_t = relu(x_t) near this pair, then C P_0 F = C P_1 F = I and C P_1 W P_0 F = 0. So E_1 and O have
    only 0 in common, and W E_0 lies in O + range(I - P_1): n + dim O <= mu and n <= dim O + N - mu, and so N >= 2n.
    """

    n: int
    """Numbers per step of the input."""
    states: int
    """N, the units of the network."""
    on: int
    """mu, the units that are positive at the second step."""
    hidden: int
    """dim O: directions of those units that the readout does not see."""
    mismatch: float
    """The largest entry of C P_0 F - I, C P_1 F - I and C P_1 W P_0 F: zero if the network is y_t = relu(x_t) here."""

    @property
    def room_to_show(self) -> bool:
        """n + dim O <= mu: enough positive units for the new input beside the hidden directions."""
        return self.n + self.hidden <= self.on

    @property
    def room_to_forget(self) -> bool:
        """n <= dim O + N - mu: enough hidden directions and switched-off units for the old input."""
        return self.n <= self.hidden + self.states - self.on


@torch.no_grad()
def count_dimensions(candidate: Candidate, seed: int = 0) -> list[DimensionCount]:
    """The count for every pair of activation patterns met at 100 random pairs of positive inputs.

    With fewer than 2n states the two inequalities never hold together, so no count can have ``mismatch`` 0.

    Args:
        candidate: the weights of a network; W must be invertible, as orthogonal matrices are.
        seed: random seed of the inputs.
    """
    (states, n), found = candidate.F.shape, {}
    if int(torch.linalg.matrix_rank(candidate.W)) < states:
        raise OptionError("W must be invertible for the count; this one has a singular W")
    generator = torch.Generator().manual_seed(seed)
    for _ in range(TRIES):
        x0, x1 = torch.rand(2, n, generator=generator, dtype=torch.float64)
        h = (candidate.F @ x0 + candidate.b).relu()
        first, second = h > 0, candidate.W @ h + candidate.F @ x1 + candidate.b > 0
        found[tuple(first.tolist()), tuple(second.tolist())] = _count(candidate, first.double(), second.double())
    return list(found.values())


def _count(candidate: Candidate, first: Tensor, second: Tensor) -> DimensionCount:
    W, F, _, C = candidate
    states, n = F.shape
    eye, on = torch.eye(n, dtype=F.dtype), int(second.sum())
    seen = C[:, second > 0]
    hidden = on - (int(torch.linalg.matrix_rank(seen, atol=TOLERANCE)) if on else 0)
    parts = C @ (first[:, None] * F) - eye, C @ (second[:, None] * F) - eye
    leak = C @ (second[:, None] * (W @ (first[:, None] * F)))
    return DimensionCount(n, states, on, hidden, float(torch.stack([*parts, leak]).abs().max()))
