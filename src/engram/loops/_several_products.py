"""Products and sums for several models at once: the first axis is the member, each of which one thread computes.

The order of a member's sums is that of :mod:`._products`, so that its bits depend neither on the other members, nor on
how many there are, nor on the number of threads.
"""

from ctypes import c_int, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.loops._build import runtime
from engram.loops._choice import threads
from engram.loops._products import column_sums, compiled_for, matmul


def matmuls(a: Tensor, b: Tensor, out: Tensor, *, add: bool = False, bias: Tensor | None = None) -> Tensor:
    """a[e] @ b[e] + bias[e] for every member e, with any strides: ``(E, m, k)``, ``(E, k, n)``, ``(E, m, n)``."""
    if not _in_c(a, b, out, bias):
        for e in range(len(out)):
            matmul(a[e], b[e], out[e], add=add, bias=None if bias is None else bias[e])
        return out
    count, m, k = a.shape
    calls = np.empty((count, 14), dtype=np.int64)
    calls[:, :4] = m, out.shape[2], k, add
    for column, tensor in ((4, a), (7, out), (11, b)):
        calls[:, column] = _places(tensor)
        calls[:, column + 1 : column + 3] = tensor.stride()[1:]
    calls[:, 10] = 0 if bias is None else _places(bias)
    found: Any = runtime(out.dtype)
    if found.products(c_int64(count), c_int(threads()), c_void_p(calls.ctypes.data)):
        raise MemoryError(f"out of memory for {count} products of {m} x {k} and {k} x {out.shape[2]}")
    return out


def several_column_sums(rows: Tensor) -> Tensor:
    """The sum of each member's rows ``(E, n, H)``: ``(E, H)``."""
    if compiled_for(rows) is None or rows.is_complex():
        return torch.stack([column_sums(own) for own in rows])
    rows = rows if rows.stride()[1:] == (rows.shape[2], 1) else rows.contiguous()
    sums = rows.new_empty(len(rows), rows.shape[2])
    calls = np.empty((len(rows), 4), dtype=np.int64)
    calls[:, :2] = rows.shape[1:]
    calls[:, 2], calls[:, 3] = _places(rows), _places(sums)
    found: Any = runtime(rows.dtype)
    found.several_column_sums(c_int64(len(rows)), c_int(threads()), c_void_p(calls.ctypes.data))
    return sums


def _places(stacked: Tensor) -> np.ndarray[Any, Any]:
    """The address of each member's numbers."""
    return stacked.data_ptr() + np.arange(len(stacked)) * (stacked.stride(0) * stacked.element_size())


def _in_c(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None) -> bool:
    tensors = [a, b, out, *([] if bias is None else [bias])]
    if compiled_for(out) is None or out.is_complex() or any(t.dtype != out.dtype for t in tensors):
        return False
    if bias is not None and bias.stride(1) != 1:
        return False
    return a.shape[2] == b.shape[1] and out.shape == (len(a), a.shape[1], b.shape[2])
