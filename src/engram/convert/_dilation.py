"""A contraction as the corner of an orthogonal matrix, and how large a state under it can grow."""

import math

import torch
from torch import Tensor


def unit_slack(size: int, dtype: torch.dtype) -> float:
    """How far a squared singular value of an N x N matrix may be from 1 and still count as 1: rounding."""
    return 8 * size * torch.finfo(dtype).eps


def dilation(matrix: Tensor, slack: float | None = None) -> Tensor:
    """The orthogonal matrix ``(n + k, n + k)`` whose upper left corner is a contraction W ``(n, n)``.

    With W = U diag(s) V^T and c = sqrt(1 - s^2), over the k singular values below 1::

        [ W              U_K diag(c_K) ]
        [ diag(c_K) V_K^T  -diag(s_K)  ]

    k is the rank of I - W^T W; k = n is Halmos's dilation up to a turn of the last n coordinates
    (spec/unitary-equivalence.md 2.1, 2.2). Computed in double precision.

    >>> dilation(torch.tensor([[0.6]])).shape
    torch.Size([2, 2])
    """
    slack = unit_slack(len(matrix), matrix.dtype) if slack is None else slack
    matrix = matrix.detach().double()
    u, s, vt = torch.linalg.svd(matrix)
    short = (1 - s) * (1 + s)  # 1 - s^2 without cancellation
    below = short > slack
    c, s = short[below].sqrt(), s[below]
    upper = torch.cat([matrix, u[:, below] * c], 1)
    return torch.cat([upper, torch.cat([c[:, None] * vt[below], -s.diag()], 1)])


def clipped(matrix: Tensor) -> Tensor:
    """The non-expansive matrix nearest to this one: singular values above 1 become 1."""
    u, s, vt = torch.linalg.svd(matrix.detach().double())
    result: Tensor = (u * s.clamp(max=1)) @ vt
    return result


def state_bound(norm: float, drive: float, start: float, steps: int | None = None) -> float:
    """M_h, which no state of h_t = relu(W h_{t-1} + F x_t + b) exceeds in norm (spec/unitary-equivalence.md 2.1).

    relu moves no two points apart and leaves 0, so |h_t| <= norm |h_{t-1}| + drive.

    Args:
        norm: of W.
        drive: \\|F\\| M_x + \\|b\\|.
        start: of the state before the first step.
        steps: of the longest sequence; None for sequences without end, which have no bound from norm 1 on: infinity.

    >>> state_bound(0.5, 3.0, 0.0), state_bound(1.0, 3.0, 1.0, steps=10)
    (6.0, 31.0)
    """
    if steps is None:
        sum_of_powers = 1 / (1 - norm) if norm < 1 else math.inf
        return max(start, drive * sum_of_powers if drive else 0.0)
    sum_of_powers = steps if norm == 1 else (1 - norm**steps) / (1 - norm)
    return max(start, norm**steps * start + drive * sum_of_powers)
