"""What is raced: a layer, at a size."""

from typing import Any, NamedTuple

Kind = tuple[str, dict[str, Any]]
"""A layer: ``module:name``, and its options beside the numbers of inputs and hidden units."""


class Size(NamedTuple):
    """Steps, batch, hidden units, input features."""

    T: int
    B: int
    H: int
    D: int
