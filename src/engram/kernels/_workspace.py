"""Memory that a kernel needs for the length of one call, kept for the next one.

A fresh array of tens of megabytes costs a page fault for every 4 kB, which on a CPU takes longer than the
arithmetic done on it. ``borrow`` lends a buffer out of a pool and takes it back at the end of the ``with`` block;
a nested or a concurrent call is simply lent another, so it is re-entrant and thread-safe. Nothing that leaves a
kernel may live in a borrowed buffer.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from threading import Lock

import torch
from torch import Tensor

KEEP = 4  # buffers kept for one dtype: as many as a kernel has at once, and one for a call inside another

_lock = Lock()


def _new_lock() -> None:
    """In the child of a fork, where a thread that held the lock is gone."""
    global _lock
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)

_free: dict[torch.dtype, list[Tensor]] = {}


@contextmanager
def borrow(shape: Sequence[int], like: Tensor) -> Iterator[Tensor]:
    """An uninitialised tensor of this shape, with the dtype and device of ``like``, valid inside the block.

    Only CPU memory is pooled: the allocators of other devices already keep theirs.
    """
    if like.device.type != "cpu":
        yield like.new_empty(shape)
        return
    count = prod(shape)
    with _lock:
        shelf = _free.setdefault(like.dtype, [])
        fitting = [i for i, buffer in enumerate(shelf) if buffer.numel() >= count]
        buffer = shelf.pop(min(fitting, key=lambda i: shelf[i].numel())) if fitting else None
    if buffer is None:
        with torch.inference_mode(False):  # else no training step could write to it later
            buffer = torch.empty(count, dtype=like.dtype)
    try:
        yield buffer[:count].view(shape)
    finally:
        with _lock:
            shelf = _free.setdefault(like.dtype, [])
            shelf.append(buffer)
            shelf.sort(key=Tensor.numel, reverse=True)
            del shelf[KEEP:]


def free_workspaces() -> int:
    """Give all pooled memory back to the system; returns the number of bytes given back."""
    with _lock:
        held = sum(buffer.nbytes for shelf in _free.values() for buffer in shelf)
        _free.clear()
    return held
