"""Matrices and vectors of a user, checked and in double precision."""

import numpy as np
import torch
from torch import Tensor

from engram.errors import NonFiniteError, ShapeError


def square_matrix(matrix: Tensor | np.ndarray, name: str = "W") -> np.ndarray:
    """The matrix (N, N) as float64 or complex128; other shapes, NaN and infinity are refused."""
    array = double_array(matrix, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ShapeError(f"{name} must be a square matrix (N, N) with N >= 1, got the shape {array.shape}")
    return array


def double_array(values: Tensor | np.ndarray, name: str) -> np.ndarray:
    """A copy as float64 or complex128; NaN and infinity are refused."""
    if isinstance(values, Tensor):
        values = values.detach().resolve_conj().cpu().to(torch.complex128 if values.is_complex() else torch.float64)
    raw = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    array = raw.astype(np.complex128 if np.iscomplexobj(raw) else np.float64)
    if not np.isfinite(array).all():
        raise NonFiniteError(f"{name} holds NaN or infinity: there is nothing to measure")
    return array
