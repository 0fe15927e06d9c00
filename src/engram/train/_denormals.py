"""How torch computes during a run: its threads, and numbers too small to matter."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_denormals(threads: int = 0) -> Iterator[None]:
    """A block with this many threads (0: as many as before) in which this one turns numbers below 1e-38 into zero.

    A gradient that vanishes over hundreds of steps ends in such numbers, and processors compute with them many times
    slower: the backward pass of torch.nn.LSTM over 784 steps takes 5.9 s in place of 1.5.
    The mode is one of a thread, and a thread inherits it. So torch's other threads are started first and always keep
    their denormals: else the last bits would depend on what the program did before.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    _start_threads()
    kept = float(torch.tensor([1e-39]) * 1.0) != 0  # torch tells how to set the mode, not how it is
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(not kept)
        torch.set_num_threads(before)


def _start_threads() -> None:
    """An operation of each library that has threads of its own, large enough to use them."""
    square = torch.ones(512, 512)
    (square @ square).add_(square).exp_()
