"""The one check that every relational network makes of what it is given."""

from typing import Any

from torch import Tensor

from engram.errors import ShapeError


def check_sequence(network: Any, codes: Tensor, steps: int | None = None) -> None:
    """Refuse anything but codes ``(T, B, F)``, with as many steps as the network was made for (default: any)."""
    name = type(network).__name__
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
