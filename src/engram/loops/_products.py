"""Products and sums of the loops, with the same bits at any number of threads.

torch's own products (MKL) may split a sum among their threads, so that the last bits depend on how many there are.
On the CPU these go to ``product.h`` where it could be compiled, which splits only results; complex matrices as real
ones of twice the size. Elsewhere, and where the loops of torch operations are asked for, torch does them.

Callers conjugate with ``conj_physical``: a torch dispatch mode hides the bit that ``conj`` sets from here.
"""

from ctypes import CDLL, c_int, c_int64, c_void_p

import torch
from torch import Tensor

from engram.loops._build import runtime
from engram.loops._choice import chosen


def compiled_for(tensor: Tensor) -> CDLL | None:
    """The library that multiplies such matrices, or None: then torch does it."""
    if chosen() == "torch" or tensor.device.type != "cpu":
        return None
    return runtime(tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype)


def matmul(a: Tensor, b: Tensor, out: Tensor | None = None, *, add: bool = False, bias: Tensor | None = None) -> Tensor:
    """a @ b + bias for matrices ``(m, k)`` and ``(k, n)`` with any strides; written to ``out``, or added to it.

    ``bias`` is ``(n)``, and there is none where the product is added.
    """
    out = a.new_empty(len(a), b.shape[1]) if out is None else out
    functions = compiled_for(out)
    if functions is None or not _fit(a, b, out, bias):
        if add:
            return out.addmm_(a, b)
        return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)
    if out.is_complex():
        pairs = None if bias is None else _pairs(bias[None])[0]
        matmul(_pairs(a), _as_real(b), _pairs(out), add=add, bias=pairs)
    else:
        bias = None if bias is None else bias.contiguous()
        start = c_void_p(None if bias is None else bias.data_ptr())
        _call(functions.product, a, out, add, start, c_void_p(b.data_ptr()), *map(c_int64, b.stride()))
    return out


class Multiplier:
    """Multiplies many times with the same matrix ``(k, n)``, prepared once: what the loops do at every step."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.functions = compiled_for(matrix)
        if self.functions is not None:
            matrix = _as_real(matrix) if matrix.is_complex() else matrix
            k, n = matrix.shape
            self.packed = matrix.new_empty(k * self.functions.packed_width(c_int64(n)))
            where = c_void_p(self.packed.data_ptr())
            pointer = c_void_p(matrix.data_ptr())
            self.functions.pack_pieces(c_int64(k), c_int64(n), pointer, *map(c_int64, matrix.stride()), where)

    def __call__(self, rows: Tensor, out: Tensor | None = None, add: bool = False) -> Tensor:
        """rows @ matrix, as :func:`matmul`."""
        out = rows.new_empty(len(rows), self.matrix.shape[1]) if out is None else out
        if self.functions is None or not _fit(rows, self.matrix, out, None):
            return matmul(rows, self.matrix, out, add=add)
        real = _pairs if out.is_complex() else lambda tensor: tensor
        _call(self.functions.packed_product, real(rows), real(out), add, c_void_p(self.packed.data_ptr()))
        return out


def column_sums(rows: Tensor) -> Tensor:
    """The sum of all rows ``(..., H)``: ``(H)``."""
    functions, width, rows = compiled_for(rows), rows.shape[-1], rows.contiguous()
    if functions is None:
        return rows.reshape(-1, width).sum(0)
    sums = rows.new_empty(width)
    real = torch.view_as_real if rows.is_complex() else lambda tensor: tensor
    functions.column_sums(
        c_int64(rows.numel() // width),
        c_int64(width * (2 if rows.is_complex() else 1)),
        c_int(torch.get_num_threads()),
        c_void_p(real(rows).data_ptr()),
        c_void_p(None),
        c_void_p(real(sums).data_ptr()),
    )
    return sums


def _fit(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None) -> bool:
    """Whether C may multiply them: it would read whatever lies there. If not, torch says what is wrong."""
    sizes = a.shape[1] == b.shape[0] and out.shape == (len(a), b.shape[1])
    sizes = sizes and (bias is None or bias.shape == out.shape[1:])
    if out.is_complex() and (out.stride(1) != 1 or out.is_conj()):
        return False  # its pairs would be a copy
    return sizes and all(t is None or (t.dtype, t.device) == (out.dtype, out.device) for t in (a, b, bias))


def _call(function: object, a: Tensor, out: Tensor, add: bool, *matrix: object) -> None:
    """One of the two products in C: their arguments differ in how the second matrix is given."""
    (m, k), n = a.shape, out.shape[1]
    failed = function(  # type: ignore[operator]
        c_int64(m),
        c_int64(n),
        c_int64(k),
        c_int(torch.get_num_threads()),
        c_int(add),
        c_void_p(a.data_ptr()),
        *map(c_int64, a.stride()),
        c_void_p(out.data_ptr()),
        *map(c_int64, out.stride()),
        *matrix,
    )
    if failed:
        raise MemoryError(f"out of memory for a product of {m} x {k} and {k} x {n}")


def _pairs(matrix: Tensor) -> Tensor:
    """Complex ``(m, k)`` as real ``(m, 2k)``: real and imaginary part side by side. A view if rows are contiguous."""
    matrix = matrix.resolve_conj()
    if matrix.stride(1) != 1:
        matrix = matrix.contiguous()
    return torch.view_as_real(matrix).flatten(1)


def _as_real(matrix: Tensor) -> Tensor:
    """Complex ``(k, n)`` as real ``(2k, 2n)``: pairs of a row times this are the pairs of the complex product.

    An entry x + iy becomes [[x, y], [-y, x]].
    """
    real, imaginary = matrix.real, matrix.imag
    upper, lower = torch.stack([real, imaginary], -1), torch.stack([-imaginary, real], -1)
    return torch.stack([upper.flatten(1), lower.flatten(1)], 1).flatten(0, 1)
