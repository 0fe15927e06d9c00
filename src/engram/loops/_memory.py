"""Arrays of the size of a sequence, out of memory that is used again.

A fresh array of tens of megabytes costs a page fault for every 4 kB, which on a CPU takes longer than the arithmetic
done on it. So large arrays are lent out of blocks that stay: a tensor's block comes back when the last tensor that sees
it is gone, wherever that happens. The idle blocks are never larger than the most that was in use at once.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.loops._fork_lock import ForkLock

LARGE = 2**18
"""Bytes: smaller arrays are left to torch, whose allocator keeps those."""
ALIGNED = 64

_lock = ForkLock()
_returned: deque[Any] = deque()  # append is atomic: a block may come back in the middle of anything
_idle: list[Any] = []  # the smallest first
_lent_bytes = _peak_bytes = _idle_bytes = 0  # lent out, the most that ever were, idle


class _Loan(np.ndarray):
    """A view of a block; the block goes back when the view is gone, which is when the tensor on it is."""

    block: Any = None

    def __del__(self) -> None:
        if self.block is not None:
            _returned.append(self.block)


def empty(shape: Sequence[int], reference: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """An uninitialised tensor of this shape, on the device of ``reference``; default: of its dtype."""
    dtype = dtype or reference.dtype
    count = prod(shape)
    size = count * dtype.itemsize
    if reference.device.type != "cpu" or size < LARGE:
        return torch.empty(tuple(shape), dtype=dtype, device=reference.device)
    block = _lend(size)
    loan = block[:size].view(_Loan)
    loan.block = block
    with torch.inference_mode(False):
        return same_memory(torch.from_numpy(loan), shape, dtype)


def same_memory(tensor: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """The memory of a contiguous tensor under another shape, as a tensor that is no view to autograd.

    What a loop returns may then be changed in place, as the result of any torch operation may.
    """
    seen = torch.empty(0, dtype=dtype or tensor.dtype, device=tensor.device)
    return seen.set_(tensor.untyped_storage(), 0, tuple(shape), _strides(shape))


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def _lend(size: int) -> Any:
    """A block of at least this size: an idle one that is not much too large, or a new one."""
    global _lent_bytes, _peak_bytes, _idle_bytes
    with _lock:
        _collect()
        at = bisect_left(_idle, size, key=len)
        if at < len(_idle) and len(_idle[at]) <= 2 * size:
            block = _idle.pop(at)
            _idle_bytes -= len(block)
        else:
            raw = np.empty(size + ALIGNED, dtype=np.uint8)
            block = raw[-raw.ctypes.data % ALIGNED :][:size]
        _lent_bytes += len(block)
        _peak_bytes = max(_peak_bytes, _lent_bytes)
        while _idle and _idle_bytes > _peak_bytes - _lent_bytes:
            _idle_bytes -= len(_idle.pop())
    return block


def _collect() -> None:
    """Take back what nobody sees any more."""
    global _lent_bytes, _idle_bytes
    while _returned:
        block = _returned.popleft()
        _lent_bytes -= len(block)
        _idle_bytes += len(block)
        insort(_idle, block, key=len)


def free_workspaces() -> int:
    """Give all idle memory back to the system; returns the number of bytes given back."""
    global _peak_bytes, _idle_bytes
    with _lock:
        _collect()
        held, _idle_bytes = _idle_bytes, 0
        _idle.clear()
        _peak_bytes = _lent_bytes
    return held
