"""The hook that compiles the loops of a wheel, on a file of one line. Whole wheels: test_wheel.py, which is slow."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from engram.loops._compilers import compilers
from engram.loops._library_names import LEVELS, REALS, shipped

ROOT = Path(__file__).parents[2]
LOOPS = ROOT / "src" / "engram" / "loops"
EXAMPLE = "int one(void) { return 1; }\n"

pytestmark = [
    pytest.mark.skipif(not (ROOT / "hatch_build.py").exists(), reason="not a source tree"),
    pytest.mark.skipif(
        not compilers() or sys.platform != "linux" or os.uname().machine != "x86_64", reason="no C compiler for x86-64"
    ),
]


def test_every_file_for_every_level_and_dtype(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    folder, target = tmp_path / "loops", tmp_path / "made"
    (folder / "generated").mkdir(parents=True)
    target.mkdir()
    for name in ("_library_names.py", "_compilers.py"):
        shutil.copy(LOOPS / name, folder)
    for file in ("runtime.c", "generated/example.c"):
        (folder / file).write_text(EXAMPLE)
    made = hook.compile_all(folder, target)
    names = {shipped(name, EXAMPLE, {}, real) for name in ("runtime", "example") for real in REALS}
    assert {path.relative_to(target) for path in made} == {Path(level, name) for level in LEVELS for name in names}
    assert all(path.stat().st_size for path in made)
