"""What generated loops are made of (loop_math.h), compiled for vectors of every width that this processor has."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from engram.loops import _build, compiled_cell
from engram.loops._compiled import Loops
from engram.nn import RelRNN

WIDTHS = {
    "16 bytes": ("-march=x86-64", ""),
    "32 bytes": ("-march=haswell", " avx2 "),
    "64 bytes": ("-march=skylake-avx512", " avx512f "),
}
PROGRAM = r"""
#include <stdio.h>
#include <sys/mman.h>
#include "loop_math.h"
#define PAGE 4096
int main(void) {
  /* The last numbers of a page behind which nothing may be read or written. */
  char *page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(page + PAGE, PAGE, PROT_NONE);
  REAL *end = (REAL *)(page + PAGE), x[50], y[50];
  for (int count = 0; count <= VL; count++) {
    for (int l = 0; l < count; l++) end[l - count] = l + 1;
    vec v = load_part(end - count, count);
    for (int l = 0; l < VL; l++)
      if (v[l] != (l < count ? l + 1 : 0)) return 1;
    end[-count - 1] = 77;
    store_part(end - count, v + 10, count);
    for (int l = 0; l < count; l++)
      if (end[l - count] != l + 11) return 2;
    if (end[-count - 1] != 77) return 3;
  }
  for (int l = 0; l < 2 * VL; l++) x[l] = 5;
  store_part(x, all(9), 1);
  if (x[0] != 9 || x[1] != 5) return 4; /* what lies behind is left alone */
  if (load_part(x, -3)[0] != 0 || load_part(x, 99)[VL - 1] != 5) return 5;
  if (every(0)[0] != 0 || every(1)[VL - 1] != -1 || every(2)[0] != -1) return 6;
  for (int l = 0; l < 50; l++) x[l] = (REAL)1 / (l + 3), y[l] = (REAL)1 / (7 * l + 1);
  for (int n = 0; n < 50; n++) printf("%a %a\n", (double)sum_of(x, n), (double)dot(x, y, n));
  return 0;
}
"""


def printed(double: int, flags: str, folder: Path) -> str:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, program = folder / "vectors.c", folder / "vectors"
    source.write_text(PROGRAM)
    options = ["-std=gnu11", "-O2", f"-DDOUBLE={double}", *flags.split(), "-I", str(Path(_build.__file__).parent)]
    subprocess.run([compiler, *options, str(source), "-o", str(program), "-lm"], check=True, capture_output=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("double", [0, 1])
@pytest.mark.parametrize("width", ["16 bytes", "32 bytes", "64 bytes"])
def test_parts_and_sums(width: str, double: int, tmp_path: Path) -> None:
    """Parts of vectors touch nothing else; sums have the same bits at every width: 16 partial sums, then halves."""
    flags, needs = WIDTHS[width]
    if needs not in Path("/proc/cpuinfo").read_text().replace("\n", " "):
        pytest.skip(f"this processor has no vectors of {width}")
    real = np.float64 if double else np.float32
    x = (real(1) / np.arange(3, 53, dtype=real)).astype(real)
    expected = []
    for n in range(50):
        lanes = np.zeros(16, dtype=real)
        for k in range(n):
            lanes[k % 16] += x[k]
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        expected.append(float(lanes[0]))
    lines = [line.split() for line in printed(double, flags, tmp_path).splitlines()]
    assert [float.fromhex(total) for total, _ in lines] == expected
    products = x.astype(np.float64) / (7 * np.arange(50) + 1)
    found = [float.fromhex(dot) for _, dot in lines]
    np.testing.assert_allclose(found, np.cumsum(products) - products, rtol=60 * np.finfo(real).eps)


def test_buffers_of_the_gradient_are_not_copied_at_every_step() -> None:
    """Of RelRNN: what their gradients become lies where they lay."""
    layer = RelRNN(3, 8, nu=2, rho=3)
    layer(torch.randn(4, 2, 3))
    loop = compiled_cell(layer.cells[0]).choose(layer.weight_hh_l0, 2).executor(layer.weight_hh_l0)
    if not isinstance(loop, Loops):
        pytest.skip("no C compiler")
    sizes = {program.name: program.text.sizes for program in loop.programs.values()}
    text = loop.source[loop.source.index("static int backward_rows") :]
    copies = re.findall(r"i < m; i\+\+\) memcpy\(.*, c->n\[(\d+)\] \* sizeof\(REAL\)\);", text)
    assert copies  # h and s
    assert max(sizes["backward"][int(k)] for k in copies) <= 8
