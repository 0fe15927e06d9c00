"""A contraction as the corner of an orthogonal matrix, and a bound on the states of a contractive network.

Source: Emami et al. (2019), Theorem 3.1, states the result; here it is built by Halmos's dilation (docs/convert.md).
"""

import math

import torch
from torch import Tensor


def unit_slack(size: int, dtype: torch.dtype) -> float:
    """How far a squared singular value of an N x N matrix may be from 1, by rounding, and still count as 1."""
    return 8 * size * torch.finfo(dtype).eps


def dilation(matrix: Tensor, slack: float | None = None) -> Tensor:
    """The orthogonal matrix ``(n + k, n + k)`` whose upper left corner is a contraction W ``(n, n)``.

    With W = U diag(s) V^T and c = sqrt(1 - s^2), over the k singular values below 1::

        [ W              U_K diag(c_K) ]
        [ diag(c_K) V_K^T  -diag(s_K)  ]

    k is the rank of I - W^T W; k = n is Halmos's dilation, up to a rotation of the last n coordinates.

    Args:
        matrix: W.
        slack: squared singular values this close to 1 count as 1; default: :func:`unit_slack`.

    Returns: the matrix in float64.

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
    """The matrix of norm at most 1 that is nearest to this one: singular values above 1 become 1."""
    u, s, vt = torch.linalg.svd(matrix.detach().double())
    result: Tensor = (u * s.clamp(max=1)) @ vt
    return result


def state_bound(norm: float, drive: float, start: float, steps: int | None = None) -> float:
    """M_h, an upper bound of the norm of all states of h_t = relu(W h_{t-1} + F x_t + b).

    relu(0) = 0, and relu does not increase distances, so |h_t| <= norm |h_{t-1}| + drive.

    Args:
        norm: the spectral norm of W.
        drive: the largest norm of F x_t + b.
        start: the norm of the initial state.
        steps: the length of the longest sequence; default: any length, for which the bound is infinite if norm >= 1.

    >>> state_bound(0.5, 3.0, 0.0), state_bound(1.0, 3.0, 1.0, steps=10)
    (6.0, 31.0)
    """
    if steps is None:
        sum_of_powers = 1 / (1 - norm) if norm < 1 else math.inf
        return max(start, drive * sum_of_powers if drive else 0.0)
    sum_of_powers = steps if norm == 1 else (1 - norm**steps) / (1 - norm)
    return max(start, norm**steps * start + drive * sum_of_powers)
