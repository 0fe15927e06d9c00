"""Which kernel is asked for: the compiled one where it can run, unless another is chosen."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from engram.errors import check_choice
from engram.maps import observed, transformed

KERNELS = ("auto", "compiled", "eager", "reference")

_chosen = check_choice("kernel (ENGRAM_KERNEL)", os.environ.get("ENGRAM_KERNEL", "auto"), KERNELS)


@contextmanager
def use(kernel: str) -> Iterator[None]:
    """Run everything inside the block with one kernel: ``auto``, ``compiled``, ``eager`` or ``reference``.

    For the whole process, not for one thread; the environment variable ``ENGRAM_KERNEL`` sets the default.
    ``compiled`` still falls back to ``eager`` where there is no compiled loop (complex numbers, another device).

    >>> with use("reference"):
    ...     chosen()
    'reference'
    """
    global _chosen
    before, _chosen = _chosen, check_choice("kernel", kernel, KERNELS)
    try:
        yield
    finally:
        _chosen = before


def chosen() -> str:
    """The kernel in force."""
    return _chosen


def needs_reference(start: Tensor) -> bool:
    """Whether the plain loop must run: on request, where only torch operations are seen into, and on empty batches."""
    return _chosen == "reference" or transformed() or start.numel() == 0


def may_skip_dispatch(*tensors: Tensor | None) -> bool:
    """Whether only numbers are wanted: no gradient, no trace, plain tensors. A loop is then called as it is, for the
    way through torch.library takes as long as one step of 200 units."""
    return not (torch.is_grad_enabled() or observed()) and all(t is None or _has_its_numbers(t) for t in tensors)


def _has_its_numbers(tensor: Tensor) -> bool:
    """Whether what lies in its memory is what it says: not so where torch conjugates, negates or zeroes it later."""
    lazy = tensor.is_meta or tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor()
    return type(tensor) in (Tensor, nn.Parameter) and not lazy
