"""Products and sums for several models at once: the first axis is the member, each of which one thread computes.

The order of a member's sums is that of :mod:`._products`, so that its bits depend neither on the other members, nor on
how many there are, nor on the number of threads.
"""

from ctypes import Structure, byref, c_int, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.loops._build import runtime
from engram.loops._choice import threads
from engram.loops._products import column_sums, compiled_for, matmul


class Several(Structure):
    """``several`` of runtime.c."""

    _fields_ = (
        ("run", c_void_p),
        ("calls", c_void_p),
        ("size", c_int64),
        ("products", c_int64),
        ("sums", c_int64),
        ("product", c_void_p),
        ("sum", c_void_p),
    )


class Work:
    """What one thread does for a member, after a loop or alone: products and sums, in the order in which they are
    added here. Tensors have the members along their first axis."""

    def __init__(self, members: int, dtype: torch.dtype) -> None:
        self.members, self.dtype, self.index = members, dtype, np.arange(members)
        self.products: list[np.ndarray[Any, Any]] = []
        self.sums: list[np.ndarray[Any, Any]] = []

    def product(self, a: Tensor, b: Tensor, out: Tensor, *, add: bool = False, bias: Tensor | None = None) -> None:
        """a[e] @ b[e] + bias[e], with any strides: ``(E, m, k)``, ``(E, k, n)``, written or added to ``(E, m, n)``."""
        call = np.empty((self.members, 14), dtype=np.int64)
        call[:, :4] = a.shape[1], b.shape[2], a.shape[2], add
        for column, tensor in ((4, a), (7, out), (11, b)):
            call[:, column] = self._places(tensor)
            call[:, column + 1 : column + 3] = tensor.stride()[1:]
        call[:, 10] = 0 if bias is None else self._places(bias)
        self.products.append(call)

    def column_sums(self, rows: Tensor, sums: Tensor) -> None:
        """The sum of each member's rows ``(E, n, H)``, which lie in one piece, written to ``(E, H)``."""
        call = np.empty((self.members, 4), dtype=np.int64)
        call[:, :2] = rows.shape[1:]
        call[:, 2], call[:, 3] = self._places(rows), self._places(sums)
        self.sums.append(call)

    def _places(self, stacked: Tensor) -> Any:
        """The address of each member's numbers."""
        return stacked.data_ptr() + self.index * (stacked.stride(0) * stacked.element_size())

    def run(self, loop: Any = None, calls: Any = None, size: int = 0) -> int:
        """All of it, after each member's call of a loop if there is one; not zero if something failed."""
        products, sums = (np.stack(kind, 1) if kind else None for kind in (self.products, self.sums))
        work = Several(
            loop, calls, size, len(self.products), len(self.sums),
            None if products is None else products.ctypes.data, None if sums is None else sums.ctypes.data,
        )  # fmt: skip
        code: Any = runtime(self.dtype)
        failed: int = code.run_several(c_int64(self.members), c_int(threads()), byref(work))
        return failed


def matmuls(a: Tensor, b: Tensor, out: Tensor, *, add: bool = False, bias: Tensor | None = None) -> Tensor:
    """a[e] @ b[e] + bias[e] for every member e, with any strides: ``(E, m, k)``, ``(E, k, n)``, ``(E, m, n)``."""
    if not _in_c(a, b, out, bias):
        for e in range(len(out)):
            matmul(a[e], b[e], out[e], add=add, bias=None if bias is None else bias[e])
        return out
    work = Work(len(out), out.dtype)
    work.product(a, b, out, add=add, bias=bias)
    if work.run():
        raise MemoryError(f"out of memory for {len(out)} products of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return out


def several_column_sums(rows: Tensor) -> Tensor:
    """The sum of each member's rows ``(E, n, H)``: ``(E, H)``."""
    if compiled_for(rows) is None or rows.is_complex():
        return torch.stack([column_sums(own) for own in rows])
    sums = rows.new_empty(len(rows), rows.shape[2])
    work, rows = Work(len(rows), rows.dtype), in_one_piece(rows)
    work.column_sums(rows, sums)
    work.run()
    return sums


def in_one_piece(stacked: Tensor) -> Tensor:
    """Stacked tensors whose numbers lie in one piece per member."""
    return stacked if stacked[0].is_contiguous() else stacked.contiguous()


def _in_c(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None) -> bool:
    tensors = [a, b, out, *([] if bias is None else [bias])]
    if compiled_for(out) is None or out.is_complex() or any(t.dtype != out.dtype for t in tensors):
        return False
    if bias is not None and bias.stride(1) != 1:
        return False
    return a.shape[2] == b.shape[1] and out.shape == (len(a), a.shape[1], b.shape[2])
