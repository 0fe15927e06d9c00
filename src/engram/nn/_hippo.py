"""HiPPO-LegS and the other starts of state space models, in float64 (Gu et al. 2022)."""

import math

import torch
from torch import Tensor

INITS = ("inv", "legs", "lin", "real")


def legs(size: int) -> tuple[Tensor, Tensor]:
    """A ``(N, N)`` and B ``(N)``: A_ik = -sqrt((2i+1)(2k+1)) below the diagonal, -(i+1) on it; B_i = sqrt(2i+1)."""
    b = torch.sqrt(2 * torch.arange(size, dtype=torch.float64) + 1)
    return -torch.tril(b[:, None] * b, -1) - torch.diag(torch.arange(1.0, size + 1, dtype=torch.float64)), b


def low_rank(size: int) -> Tensor:
    """P ``(N)``, P_i = sqrt(i + 1/2): A + P P^T is -1/2 and a skew-symmetric matrix."""
    return torch.sqrt(torch.arange(size, dtype=torch.float64) + 0.5)


def normal_basis(size: int) -> tuple[Tensor, Tensor]:
    """lambda and W of A + P P^T = W diag(lambda) W^*: of each conjugate pair the one with negative imaginary part.

    Shape: ``(N/2)`` and ``(N, N/2)``; the other half of each is the conjugate.
    """
    a, _ = legs(size)
    p = low_rank(size)
    normal = a + p[:, None] * p
    frequency, basis = torch.linalg.eigh(-0.5j * (normal - normal.mT))
    half = size // 2  # eigh sorts: the negative ones come first
    return torch.complex(torch.full((half,), -0.5, dtype=torch.float64), frequency[:half]), basis[:, :half]


def diagonal(init: str, size: int) -> Tensor:
    """lambda ``(N/2)`` of S4D-LegS, S4D-Lin, S4D-Inv or S4D-Real, with imaginary parts of zero or below."""
    if init == "legs":
        return normal_basis(size)[0]
    n = torch.arange(size // 2, dtype=torch.float64)
    if init == "real":
        return torch.complex(-(n + 1), torch.zeros_like(n))
    frequency = math.pi * n if init == "lin" else size / math.pi * (size / (2 * n + 1) - 1)
    return torch.complex(torch.full_like(n, -0.5), -frequency)
