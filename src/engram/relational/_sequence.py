"""The checks that every relational network makes: of its sizes, and of what it is given."""

from typing import Any

from torch import Tensor

from engram.errors import DTypeError, ShapeError, check_size
from engram.state import in_dtype


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that are not whole numbers from 1."""
    for name, size in sizes.items():
        check_size(name, size)


def check_sequence(network: Any, codes: Tensor, steps: int | None = None) -> Tensor:
    """Refuse anything but codes ``(T, B, F)``, with as many steps as the network was made for (default: any).

    Returns the codes, which under autocast are converted to the dtype of the weights.
    """
    name = type(network).__name__
    if not isinstance(codes, Tensor):
        raise DTypeError(f"{name} takes codes as a tensor (steps, batch, features), got {type(codes).__name__}")
    if codes.dim() != 3 or codes.shape[-1] != network.input_size or len(codes) == 0:
        raise ShapeError(
            f"{name} takes codes (steps, batch, {network.input_size}), got {tuple(codes.shape)}: encode the objects "
            "first, each to a vector"
        )
    if steps is not None and len(codes) != steps:
        raise ShapeError(
            f"{name} was made for sequences of {steps} steps, got {len(codes)}: its weights depend on the number of "
            f"steps, make one with steps={len(codes)}"
        )
    weight = next(network.parameters(), None)  # a symmetric similarity has none
    return codes if weight is None else in_dtype(codes, weight.dtype, weight.device)
