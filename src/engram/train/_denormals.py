"""Numbers too small to matter, and too slow to keep."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_denormals() -> Iterator[None]:
    """A block in which numbers below 1e-38 become zero, on this thread and those it starts.

    A gradient that vanishes over hundreds of steps ends in such numbers, and processors compute with them many times
    slower: the backward pass of torch.nn.LSTM over 784 steps takes 5.9 s in place of 1.5.
    """
    kept = float(torch.tensor([1e-39]) * 1.0) != 0  # torch tells how to set the mode, not how it is
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(not kept)
