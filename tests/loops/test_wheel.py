"""The wheel brings the loops compiled, for a user without a compiler; the pure one stays possible."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from itertools import product
from pathlib import Path

import pytest

from engram.loops._compilers import compilers
from engram.loops._library_names import LEVELS, REALS, headers, shipped

ROOT = Path(__file__).parents[2]
NEEDED = ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
EXAMPLE = '#include "runtime.h"\nint64_t example(const engram_runtime *r) { return r->vector; }\n'
BUILD = ("-m", "build", "--no-isolation")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "hatch_build.py").exists(), reason="not a source tree"),
]
needs_compiler = pytest.mark.skipif(
    not compilers() or sys.platform != "linux" or os.uname().machine != "x86_64", reason="no C compiler for x86-64"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one more generated loop; torch cannot be imported while it is built."""
    copy = tmp_path_factory.mktemp("tree")
    for name in NEEDED:
        here = ROOT / name
        if here.is_dir():
            shutil.copytree(here, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(here, copy / name)
    generated = copy / "src" / "engram" / "loops" / "generated"
    generated.mkdir(exist_ok=True)
    (generated / "example.c").write_text(EXAMPLE)
    (copy / "no-torch").mkdir()
    (copy / "no-torch" / "torch.py").write_text("raise ImportError('the build must not need torch')")
    return copy


def run(tree: Path, *arguments: str, **changes: str) -> str:
    """A Python program in the tree; returns all that it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "ENGRAM_PURE")}
    environment = {**kept, "PYTHONPATH": str(tree / "no-torch"), **changes}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def libraries(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")}


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    assert "without compiled loops" not in run(tree, *BUILD, "--wheel", "-o", str(folder))
    return only(folder, "*.whl")


@needs_compiler
def test_every_library_is_in_it(tree: Path, wheel: Path) -> None:
    loops = tree / "src" / "engram" / "loops"
    sources = [loops / "runtime.c", *(loops / "generated").glob("*.c")]
    assert len(sources) >= 2
    expected = {
        f"engram/loops/built/{level}/{shipped(path.stem, path.read_text(), headers(loops), real)}"
        for path, real, level in product(sources, REALS, LEVELS)
    }
    assert len(expected) == 6 * len(sources)
    assert libraries(wheel) == expected


@needs_compiler
def test_it_says_which_machine_it_is_for(wheel: Path) -> None:
    assert re.fullmatch(r"engram-.*-py3-none-linux_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as content:
        about = next(name for name in content.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in content.read(about).decode()


USE = f"""
import ctypes, sys, torch, engram
from engram.loops import _build
from engram.loops._runtime import functions
assert engram.__file__.startswith(sys.argv[1]), engram.__file__
for dtype in (torch.float32, torch.float64):
    assert functions(dtype).packed_width(1) == functions(dtype).vector
    example = _build.library("example", {EXAMPLE!r}, dtype)
    example.example.restype = ctypes.c_int64
    assert example.example(ctypes.byref(functions(dtype))) == functions(dtype).vector
    print(_build.reason("runtime", _build.RUNTIME, dtype))
    print(_build.reason("example", {EXAMPLE!r}, dtype))
own = "int own(void) {{ return 1; }}"
print(_build.reason("own", own, torch.float32))
"""


@needs_compiler
@pytest.mark.parametrize("told", ["default", "avx2", "avx512", ""])
def test_it_works_without_a_compiler(wheel: Path, tmp_path: Path, told: str) -> None:
    """Whatever torch is told about the processor; the cache stays empty, and an own cell gets its reason."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    changes = {"ATEN_CPU_CAPABILITY": told} if told else {}
    printed = run(
        tmp_path, "-c", USE, str(tmp_path / "site"), PYTHONPATH=str(tmp_path / "site"), CC="false",
        ENGRAM_CACHE=str(tmp_path / "cache"), **changes,
    ).splitlines()  # fmt: skip
    assert len(printed) == 5
    assert all(re.fullmatch(r"compiled: \w+-\w+\.so of the wheel, for [\w-]+", line) for line in printed[:4])
    assert "could not compile own.c" in printed[4]
    assert not list((tmp_path / "cache").rglob("*.so"))
    if told == "default":
        assert all(line.endswith("for x86-64") for line in printed[:4])


@needs_compiler
def test_from_the_sdist(tree: Path, tmp_path: Path) -> None:
    """It holds all the C, and a wheel that is built from it all the libraries."""
    run(tree, *BUILD, "--sdist", "-o", str(tmp_path))
    with tarfile.open(only(tmp_path, "*.tar.gz")) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
        content.extractall(tmp_path, filter="data")
    loops = tree / "src" / "engram" / "loops"
    held = {str(path.relative_to(tree)) for path in loops.rglob("*.[ch]")}
    assert {"src/engram/loops/runtime.c", "src/engram/loops/runtime.h", "src/engram/loops/generated/example.c"} <= held
    assert held | {"hatch_build.py"} <= names
    run(only(tmp_path, "engram-*[0-9]"), *BUILD, "--wheel", "-o", str(tmp_path), PYTHONPATH=str(tree / "no-torch"))
    assert len(libraries(only(tmp_path, "*.whl"))) == 6 * (1 + len([*(loops / "generated").glob("*.c")]))


PURE = {
    "asked for": ({"ENGRAM_PURE": "1"}, ""),
    "no compiler": ({"PATH": "", "CC": ""}, "a wheel without compiled loops: no C compiler found"),
    "broken compiler": ({"CC": "false"}, "could not compile runtime.c"),
}


@pytest.mark.parametrize("why", PURE)
def test_pure_wheel(tree: Path, tmp_path: Path, why: str) -> None:
    changes, words = PURE[why]
    if why == "no compiler" and any(compiler.zig for compiler in compilers()):
        pytest.skip("the package ziglang is installed")
    printed = run(tree, *BUILD, "--wheel", "-o", str(tmp_path), **changes)
    made = only(tmp_path, "*.whl")
    assert made.name.endswith("-py3-none-any.whl")
    assert libraries(made) == set()
    assert "engram/loops/runtime.c" in zipfile.ZipFile(made).namelist()
    said = [line for line in printed.splitlines() if "without compiled loops" in line]
    assert len(said) == bool(words)
    assert words in "".join(said)


def test_editable_install_compiles_nothing(tree: Path, tmp_path: Path) -> None:
    run(tree, "-c", "import sys, hatchling.build; hatchling.build.build_editable(sys.argv[1])", str(tmp_path))
    made = only(tmp_path, "*.whl")
    assert made.name.endswith("-py3-none-any.whl")
    assert libraries(made) == set()
