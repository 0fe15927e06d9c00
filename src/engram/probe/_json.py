"""Results as JSON."""

import math
from dataclasses import fields
from typing import Any

import numpy as np


def as_json(value: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, complex numbers as [real, imaginary], NaN and infinity as None.

    A dataclass becomes a dictionary of its fields.

    >>> as_json(np.array([1 + 2j, np.inf]))
    [[1.0, 2.0], [None, 0.0]]
    """
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(entry) for entry in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, complex):
        return [as_json(value.real), as_json(value.imag)]
    if isinstance(value, np.generic):
        return as_json(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
