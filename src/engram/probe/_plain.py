"""What the measures share: a matrix checked at the door, and results as JSON."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import NonFiniteError, ShapeError


def square(matrix: Tensor | np.ndarray, name: str = "W") -> np.ndarray:
    """The matrix (N, N) as float64 or complex128; wrong shapes, NaN and infinity are refused."""
    array = array64(matrix, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ShapeError(f"{name} must be a square matrix (N, N) with N >= 1, got the shape {array.shape}")
    return array


def array64(values: Tensor | np.ndarray, name: str) -> np.ndarray:
    """A tensor or an array as float64 or complex128, a copy of its own, all of it finite."""
    if isinstance(values, Tensor):
        values = values.detach().resolve_conj().cpu().to(torch.complex128 if values.is_complex() else torch.float64)
    raw = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    array = raw.astype(np.complex128 if np.iscomplexobj(raw) else np.float64)
    if not np.isfinite(array).all():
        raise NonFiniteError(f"{name} holds NaN or infinity: there is nothing to measure")
    return array


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays as lists, complex numbers as pairs, what is not finite as None.

    >>> plain(np.array([1 + 2j, np.inf]))
    [[1.0, 2.0], [None, 0.0]]
    """
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(entry) for entry in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
