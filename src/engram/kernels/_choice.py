"""Which kernel is asked for: the compiled one where it can run, unless another is chosen."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from engram.errors import check_choice
from engram.maps import transformed

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


def plain() -> bool:
    """Whether the plain loop must run: on request, and where only torch operations are seen into."""
    return _chosen == "reference" or transformed()
