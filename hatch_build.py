"""Compile the loops into the wheel, so that a user without a C compiler has them.

For each processor level of ``_library_names.LEVELS`` and each dtype: ``loops/runtime.c`` and every
``loops/generated/*.c``, as ``engram/loops/built/<level>/<hash>.so``. They are called through ctypes and know nothing of
Python, so that one wheel serves every version of it. ``ENGRAM_PURE=1``, a machine without a compiler and one that is
not x86-64 give the wheel without libraries; an editable install has none either, and compiles at first use.

The build must not need torch, so the two files of engram that it shares are loaded by themselves, not as ``engram.*``.
"""

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOOPS = Path("src", "engram", "loops")


class Loops(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.made: Path | None = None
        if version == "editable" or os.environ.get("ENGRAM_PURE") == "1":
            return
        self.made = Path(tempfile.mkdtemp())
        try:
            libraries = compile_all(Path(self.root) / LOOPS, self.made)
        except (OSError, RuntimeError) as error:
            self.app.display_warning(f"a wheel without compiled loops: {error}")
            return
        if not any((Path(self.root) / LOOPS / "generated").glob("*.c")):
            self.app.display_warning("only the runtime is compiled: make wheel also writes the loops of the layers")
        for library in libraries:
            inside = library.relative_to(self.made).as_posix()
            build_data["force_include"][str(library)] = f"engram/loops/built/{inside}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)


def compile_all(folder: Path, target: Path) -> list[Path]:
    """Every library as ``target/<level>/<hash>.so``; RuntimeError or OSError if one of them cannot be made."""
    names, compilers = load(folder / "_library_names.py"), load(folder / "_compilers.py")
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise RuntimeError(f"there are levels for x86-64 alone, not for {platform.machine()}")
    compiler = next(iter(compilers.compilers()), None)
    if compiler is None:
        raise RuntimeError("no C compiler found (looked for $CC, cc, gcc, clang and the package ziglang)")
    headers = names.headers(folder)
    sources = [folder / "runtime.c", *sorted((folder / "generated").glob("*.c"))]

    def make(what: tuple[Path, str, str]) -> Path:
        path, real, level = what
        source = path.read_text()
        library = target / level / names.shipped(path.stem, source, headers, real)
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            given = (names.file_name(path.stem), source, headers, real, [compiler.level(level)], Path(scratch))
            built = compiler.compile(*given, target / "zig")
            ctypes.CDLL(str(built))  # one that does not load is none
            shutil.copyfile(built, library)
        return library

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(make, product(sources, names.REALS, names.LEVELS)))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"engram_build{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
