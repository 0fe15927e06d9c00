"""Generated C under the address and undefined-behaviour sanitizers: every cell, and random steps, at odd sizes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import random, sys
sys.path.insert(0, {folder!r})
import torch
import engram
from engram.loops import compiled_cell, use
from engram.nn import *
from engram.state import each, parts
from random_steps import random_cell

torch.set_num_threads(2)
def run(cell):
    with use("compiled"):
        found = compiled_cell(cell)
        assert found.traced is not None, (type(cell), found.reason, found.line)
        for hoist in (True, False):
            loops = found.variant(hoist=hoist, rebuild=True).loops
            assert loops.ready(), (type(cell), loops.reason())
        for batch, sizes in ((1, None), (3, [3, 2, 2, 1]), (17, None), (17, [17, 5, 1])):
            rows = (4, batch) if sizes is None else (sum(sizes),)
            x = torch.randn(*rows, cell.input_size, dtype=cell.reference_weight.dtype, requires_grad=True)
            given = None if sizes is None else torch.tensor(sizes)
            state = each(lambda s: s.clone(), cell.initial_state(batch))
            output, final = cell.run(x, state, given, sizes is not None)
            loss = output.sum() + sum(f.sum() for f in parts(final) if f.is_floating_point())
            loss.backward()

count = 0
for kind in {cells}:
    for features, hidden in ((1, 1), (3, 3), (3, 17)):
        run(kind(features, hidden))
        count += 1
for seed in range({seeds}):
    run(random_cell(random.Random(seed), only_c=True))
    count += 1
print("ran", count)
"""
CELLS = ["RNNCell", "MIRNNCell", "RACCell", "BilinearCell", "SecondOrderCell", "CPBilinearCell", "CPCell", "GORUCell"]
CELLS += ["HenaffCell"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CELLS, "random"])
def test_under_sanitizers(compiled: str, name: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    library = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("this compiler has no sanitizers")
    flags = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    settings = {"CC": compiler, "ENGRAM_CACHE": str(tmp_path), "ENGRAM_CFLAGS": flags, "LD_PRELOAD": library}
    cells, seeds = ("[]", 5) if name == "random" else (f"[{name}]", 0)
    program = PROGRAM.format(folder=str(Path(__file__).parent), cells=cells, seeds=seeds)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == ("ran 5" if name == "random" else "ran 3")
    built = [path for path in tmp_path.rglob("*.so") if b"__asan" in path.read_bytes()]
    assert len(built) >= 2, "the libraries that ran were not those of this test"
