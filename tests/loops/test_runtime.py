"""The runtime library: products of any size with the same bits for a row whatever comes beside it, and shared work."""

import os
import shutil
import subprocess
from ctypes import POINTER, byref, c_int, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.loops import _build
from engram.loops._runtime import WORK, Runtime, functions
from prepared import Prepared

DTYPES = (torch.float32, torch.float64)
FRAME = 3.25  # around what a product may write


@pytest.fixture(scope="session", params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype with a library; a skip where there is no compiler, never a silent pass."""
    if functions(request.param) is None:
        pytest.skip(_build.reason("runtime", _build.RUNTIME, request.param))
    return request.param


def runtime(dtype: torch.dtype) -> Runtime:
    found = functions(dtype)
    assert found is not None
    return found


def pack(matrix: Tensor) -> Tensor:
    """A matrix with any strides in panels, in memory of exactly the size that is asked for, not aligned."""
    functions, (depth, columns) = runtime(matrix.dtype), matrix.shape
    size = depth * functions.packed_width(columns)
    panels = torch.full((size + 2,), FRAME, dtype=matrix.dtype)
    functions.pack(matrix.data_ptr(), *matrix.stride(), depth, columns, panels[1:].data_ptr())
    assert panels[0] == panels[-1] == FRAME
    return panels[1:-1]


def multiply(rows: Tensor, matrix: Tensor, start: Tensor | None = None, extra: int = 0) -> Tensor:
    """rows @ matrix (+ start) by ``multiply``, with rows and results ``extra`` numbers longer than they need be."""
    functions, (depth, columns), m = runtime(matrix.dtype), matrix.shape, len(rows)
    width, panels = functions.packed_width(columns), pack(matrix)
    wide = torch.full((m, depth + extra), torch.nan, dtype=rows.dtype)
    wide[:, :depth] = rows
    out = torch.full((m + 2, width + extra), FRAME, dtype=rows.dtype)
    result = out[1:-1, :width]
    result[:] = torch.nan if start is None else 0
    if start is not None:
        result[:, :columns] = start
    where = (panels.data_ptr(), result.data_ptr(), width + extra, start is not None)
    functions.multiply(m, depth, columns, wide.data_ptr(), depth + extra, *where)
    assert (out[0] == FRAME).all()
    assert (out[-1] == FRAME).all()
    assert (out[:, width:] == FRAME).all()
    assert (result[rows.isfinite().all(1), columns:] == 0).all()
    return result[:, :columns].clone()


def bound(rows: Tensor, matrix: Tensor, start: Tensor | None) -> np.ndarray:
    """Of the rounding error: each of ``depth`` products and sums rounds once, each piece once more."""
    size = np.abs(rows.double().numpy()) @ np.abs(matrix.double().numpy())
    size += 0 if start is None else np.abs(start.double().numpy())
    return (2 * len(matrix) + 4) * torch.finfo(rows.dtype).eps * size


def check(m: int, depth: int, columns: int, extra: int, add: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(m * 10_000 + depth * 100 + columns)
    rows = torch.randn(m, depth, generator=generator, dtype=dtype)
    matrix = torch.randn(depth, columns, generator=generator, dtype=dtype)
    start = torch.randn(m, columns, generator=generator, dtype=dtype) if add else None
    found = multiply(rows, matrix, start, extra)
    right = rows.double().numpy() @ matrix.double().numpy() + (0 if start is None else start.double().numpy())
    assert (np.abs(found.numpy() - right) <= bound(rows, matrix, start)).all()
    transposed = matrix.t().contiguous().t()
    assert multiply(rows, transposed, start).equal(found)
    for cut in {1, 2, 5, m // 2, m - 1} & set(range(1, m)):  # the same rows among fewer
        first = multiply(rows[:cut], matrix, None if start is None else start[:cut])
        rest = multiply(rows[cut:], matrix, None if start is None else start[cut:])
        assert torch.cat([first, rest]).equal(found)


SIZES = [
    (m, depth, columns)
    for m in (0, 1, 2, 3, 7, 13, 48)
    for depth, columns in ((0, 5), (1, 1), (5, 0), (3, 16), (16, 33), (511, 7), (512, 70), (513, 64), (1100, 129))
]


@pytest.mark.parametrize("add", [False, True], ids=["set", "add"])
def test_multiply(dtype: torch.dtype, add: bool) -> None:
    assert len(SIZES) == 63
    for m, depth, columns in SIZES:
        check(m, depth, columns, 3, add, dtype)


@given(st.integers(0, 70), st.integers(0, 1200), st.integers(0, 140), st.integers(0, 9), st.booleans())
def test_multiply_any_size(dtype: torch.dtype, m: int, depth: int, columns: int, extra: int, add: bool) -> None:
    check(m, depth, columns, extra, add, dtype)


def test_every_row_alone(dtype: torch.dtype) -> None:
    """All numbers of rows up to 50: each row has the bits that it has alone."""
    rows, matrix = torch.randn(50, 600, dtype=dtype), torch.randn(600, 45, dtype=dtype)
    alone = torch.cat([multiply(row[None], matrix) for row in rows])
    for m in range(51):
        assert multiply(rows[:m], matrix).equal(alone[:m])


def test_infinity_and_nan_stay_in_their_row(dtype: torch.dtype) -> None:
    rows, matrix = torch.ones(9, 20, dtype=dtype), torch.ones(20, 10, dtype=dtype)
    rows[3, 4], rows[5, 6] = torch.inf, torch.nan
    found = multiply(rows, matrix)
    assert (found[3] == torch.inf).all()
    assert found[5].isnan().all()
    assert (found[[0, 1, 2, 4, 6, 7, 8]] == 20).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_other_products_have_the_same_bits(dtype: torch.dtype, threads: int) -> None:
    """product, packed_product (panels of pack_pieces are those of pack) and multiply are one arithmetic."""
    library = _build.runtime(dtype)
    assert library is not None
    for m, depth, columns in ((1, 1, 1), (1, 1100, 70), (7, 600, 45), (130, 1100, 70), (4, 0, 3)):
        rows, matrix = torch.randn(m, depth, dtype=dtype), torch.randn(depth, columns, dtype=dtype)
        right = multiply(rows, matrix)
        panels = torch.empty(depth * library.packed_width(c_int64(columns)) + 1, dtype=dtype)
        pieces = (c_void_p(matrix.data_ptr()), c_int64(columns), c_int64(1), c_void_p(panels.data_ptr()))
        library.pack_pieces(c_int64(depth), c_int64(columns), *pieces)
        assert panels[:-1].equal(pack(matrix))
        given = [c_void_p(matrix.data_ptr()), c_int64(columns), c_int64(1)]
        for name, last in (("product", [c_void_p(None), *given]), ("packed_product", [c_void_p(panels.data_ptr())])):
            out = torch.full((m, columns), torch.nan, dtype=dtype)
            sizes = (*map(c_int64, (m, columns, depth)), c_int(threads), c_int(0))
            left = (c_void_p(rows.data_ptr()), c_int64(depth), c_int64(1))
            assert library[name](*sizes, *left, c_void_p(out.data_ptr()), c_int64(columns), c_int64(1), *last) == 0
            assert out.equal(right)


def test_column_sums(dtype: torch.dtype) -> None:
    library = _build.runtime(dtype)
    assert library is not None
    for count, width in ((0, 3), (1, 1), (700, 300), (5000, 270)):
        rows, sums = torch.randn(count, width, dtype=dtype), {}
        for threads in (1, 3):
            out = torch.full((width,), torch.nan, dtype=dtype)
            pointers = (c_void_p(rows.data_ptr()), c_void_p(None), c_void_p(out.data_ptr()))
            library.column_sums(c_int64(count), c_int64(width), c_int(threads), *pointers)
            sums[threads] = out
        assert sums[1].equal(sums[3])
        error = (sums[1] - rows.double().sum(0)).abs()
        assert (error <= (count + 4) * torch.finfo(dtype).eps * rows.double().abs().sum(0)).all()


def test_share(dtype: torch.dtype) -> None:
    """Every number once, on any number of threads; a failure anywhere is a failure."""
    share = runtime(dtype).share
    for count in (0, 1, 2, 100):
        for threads in (0, 1, 2, 5):
            taken: list[int] = []
            assert share(count, threads, WORK(lambda _, i: taken.append(i) or 0), None) == 0  # noqa: B023
            assert sorted(taken) == list(range(count))
            assert bool(share(count, threads, WORK(lambda _, i: i == 1), None)) == (count > 1)


LOOP = """
#include "runtime.h"
typedef struct { const engram_runtime *r; int64_t rows, size; const REAL *state, *panels; REAL *out; } call;
static int block(const void *context, int64_t i) {
  const call *c = context;
  int64_t most = c->r->most_rows, first = i * most, m = c->rows - first < most ? c->rows - first : most;
  int64_t width = c->r->packed_width(c->size);
  REAL *scratch = malloc((size_t)(m * width) * sizeof(REAL));
  if (!scratch) return 1;
  c->r->multiply(m, c->size, c->size, c->state + first * c->size, c->size, c->panels, scratch, width, 0);
  for (int64_t y = 0; y < m; y++) memcpy(c->out + (first + y) * c->size, scratch + y * width, c->size * sizeof(REAL));
  free(scratch);
  return 0;
}
int step(const engram_runtime *r, int64_t rows, int64_t size, int threads, const REAL *state, const REAL *weight,
         REAL *out) {
  REAL *panels = malloc((size_t)(size * r->packed_width(size)) * sizeof(REAL));
  if (!panels) return 1;
  r->pack(weight, size, 1, size, size, panels);
  call c = {r, rows, size, state, panels, out};
  int failed = r->share((rows + r->most_rows - 1) / r->most_rows, threads, block, &c);
  free(panels);
  return failed;
}
"""


@pytest.mark.parametrize("flags", [None, "-march=x86-64"])
def test_a_loop_of_its_own(
    dtype: torch.dtype, flags: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another library uses the runtime by its struct, also one that was compiled for narrower vectors."""
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path))
    if flags is not None:
        if os.uname().machine != "x86_64":
            pytest.skip("a flag for x86-64")
        monkeypatch.setenv("ENGRAM_CFLAGS", flags)
    loop = _build._find("loop", LOOP, dtype).library
    if loop is None:
        pytest.skip("no C compiler")
    loop.step.argtypes = [POINTER(Runtime), c_int64, c_int64, c_int, c_void_p, c_void_p, c_void_p]
    state, weight = torch.randn(200, 70, dtype=dtype), torch.randn(70, 70, dtype=dtype)
    right = multiply(state, weight)
    for threads in (1, 2, 8):
        out = torch.full_like(state, torch.nan)
        pointers = (state.data_ptr(), weight.data_ptr(), out.data_ptr())
        assert loop.step(byref(runtime(dtype)), 200, 70, threads, *pointers) == 0
        assert out.equal(right)


MAIN = """
#include "runtime.c"
int main(void) {
  const engram_runtime *r = runtime();
  int64_t counts[] = {0, 1, 2, 3, 7, 13, 48}, depths[] = {0, 1, 5, 512, 600}, widths[] = {0, 1, 16, 33, 70};
  for (int a = 0; a < 7; a++) for (int b = 0; b < 5; b++) for (int c = 0; c < 5; c++) {
    int64_t m = counts[a], depth = depths[b], columns = widths[c], width = r->packed_width(columns);
    REAL *rows = calloc(m * depth + 1, sizeof(REAL)) , *matrix = calloc(depth * columns + 1, sizeof(REAL));
    REAL *panels = malloc((depth * width) * sizeof(REAL)), *out = malloc((m * width) * sizeof(REAL));
    REAL *small = calloc(m * columns + 1, sizeof(REAL));
    r->pack(matrix, columns, 1, depth, columns, panels);
    r->multiply(m, depth, columns, rows, depth, panels, out, width, 0);
    r->multiply(m, depth, columns, rows, depth, panels, out, width, 1);
    for (int64_t i = 0; i < m * width; i++) if (out[i] != 0) return 1;
    if (product(m, columns, depth, 2, 0, rows, depth, 1, small, columns, 1, NULL, matrix, columns, 1)) return 2;
    if (packed_product(m, columns, depth, 2, 1, rows, depth, 1, small, columns, 1, panels)) return 3;
    free(rows), free(matrix), free(panels), free(out), free(small);
  }
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("double", [0, 1])
@pytest.mark.parametrize("flags", ["", "-march=native"])
def test_under_sanitizers(tmp_path: Path, double: int, flags: str) -> None:
    """No number is read or written outside of its array, nothing undefined happens."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "main.c").write_text(MAIN)
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    command = [compiler, "-std=gnu11", *sanitize, *flags.split(), f"-DDOUBLE={double}", "-iquote", str(_build.FOLDER)]
    made = subprocess.run([*command, str(tmp_path / "main.c"), "-o", str(tmp_path / "main"), "-pthread", "-lm"])
    if made.returncode:
        pytest.skip("this compiler has no sanitizers")
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork(dtype: torch.dtype, prepared: Prepared) -> None:
    """A child has none of its parent's threads: it starts its own in place of waiting for them."""
    program = f"""
import os, signal, torch
from engram.loops._runtime import WORK, functions
def run():
    taken = []
    assert functions({dtype}).share(50, 4, WORK(lambda _, i: taken.append(i) or 0), None) == 0
    assert sorted(taken) == list(range(50))
run()
child = os.fork()
if child == 0:
    signal.alarm(60)
    run()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = prepared.run(program)
    assert done.returncode == 0, done.stderr
