"""Which executor is asked for. Default: generated C where it can run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engram.errors import check_choice
from engram.maps import members, transformed

EXECUTORS = ("auto", "compiled", "torch", "plain")

_chosen = check_choice("executor (ENGRAM_LOOP)", os.environ.get("ENGRAM_LOOP", "auto"), EXECUTORS)
_threads = 0


@contextmanager
def use(executor: str) -> Iterator[None]:
    """Run everything inside the block with one executor: ``auto``, ``compiled``, ``torch`` or ``plain``.

    For the whole process, not for one thread; the environment variable ``ENGRAM_LOOP`` sets the default. ``plain`` is
    the Python loop over :meth:`engram.nn.BareCell.step`, the truth that the others equal. ``compiled`` still falls back
    to ``torch`` where C has no loop (complex numbers, another device, no compiler).

    >>> with use("plain"):
    ...     chosen()
    'plain'
    """
    global _chosen
    before, _chosen = _chosen, check_choice("executor", executor, EXECUTORS)
    try:
        yield
    finally:
        _chosen = before


def chosen() -> str:
    """The executor in force."""
    return _chosen


def needs_plain(start: Tensor) -> bool:
    """Whether the plain loop must run: on request, under transforms of torch.func (but not for several models that are
    trained as one), and for empty batches."""
    return _chosen == "plain" or (transformed() and not members()) or start.numel() == 0


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """A block in which what C computes for several members is shared by this many threads, whatever torch's number.

    No bit depends on it: each member's work is done by one thread. For the whole process.
    """
    global _threads
    before, _threads = _threads, count
    try:
        yield
    finally:
        _threads = before


def threads() -> int:
    """How many threads C may use for several members."""
    return _threads or torch.get_num_threads()


def uses_c(reference: Tensor) -> bool:
    """Whether C may run on tensors of this dtype and device."""
    real = reference.dtype in (torch.float32, torch.float64)
    return real and reference.device.type == "cpu" and _chosen in ("auto", "compiled")
