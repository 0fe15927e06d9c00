"""How far a matrix is from the unitary group, and the nearest point on it."""

import math

import torch
from torch import Tensor


def orthogonality_error(matrix: Tensor) -> float:
    """The largest entry of |W^* W - I|."""
    eye = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    error = float((matrix.mH @ matrix - eye).abs().max())
    return error if math.isfinite(error) else math.inf


def polar(matrix: Tensor) -> Tensor:
    """The unitary matrix nearest to this one: U V^* of its singular value decomposition."""
    u, _, vh = torch.linalg.svd(matrix.detach())
    result: Tensor = u @ vh
    return result
