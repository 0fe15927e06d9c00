"""Where a compiled loop comes from: the wheel, the user's cache, or a C compiler at first use.

A library is never required: without one every layer runs the loop of torch operations, and :func:`reason` says why.
Tried in this order: ``ENGRAM_COMPILE=0`` turns all of it off; a library of the wheel (``built/<level>/``) if this
processor runs it; the user's cache; a compiler (:mod:`engram.loops._compilers`). A library counts as built when it
loads.

The cache is a folder of files named by the hash of everything a library depends on (source, headers, flags, compiler,
processor); each appears whole or not at all. The name also carries the hash of the content: to load a damaged file
would end the process, so one that does not match is compiled again.

Loading a library runs its code, so a cache is used only if nobody but the user can write to it. Where that is not so,
or nothing can be written there, loops are compiled for this process alone.
"""

import ctypes
import os
import platform
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch

from engram.loops._compilers import EFFORT, FLAGS, CompileError, Compiler, compilers
from engram.loops._library_names import LEVELS, file_name, hash16, headers, shipped, stem
from engram.places import cache_folder, why_not_private

FOLDER = Path(__file__).parent
BUILT = FOLDER / "built"  # in a wheel; not in a checkout
RUNTIME = (FOLDER / "runtime.c").read_text()
REAL = {torch.float32: "float32", torch.float64: "float64"}
V3 = ("avx2", "fma3", "bmi", "bmi2", "f16c", "lzcnt")
V4 = ("avx512_f", "avx512_bw", "avx512_cd", "avx512_dq", "avx512_vl")


class Found(NamedTuple):
    library: ctypes.CDLL | None
    reason: str


_libraries: dict[tuple[str, str, torch.dtype], Found] = {}
_locks: dict[tuple[str, str, torch.dtype], Lock] = {}
if hasattr(os, "register_at_fork"):  # in the child a thread that held a lock is gone
    os.register_at_fork(after_in_child=_locks.clear)


def library(name: str, source: str, dtype: torch.dtype) -> ctypes.CDLL | None:
    """The C file with the text ``source``, compiled for a dtype; None if there is none (see :func:`reason`)."""
    return _find_once(name, source, dtype).library


def reason(name: str, source: str, dtype: torch.dtype) -> str:
    """Why :func:`library` is what it is, in words; they begin with "compiled" if there is one."""
    return _find_once(name, source, dtype).reason


def runtime(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The library that every loop of this dtype shares: products, and the pool of threads."""
    return library("runtime", RUNTIME, dtype)


def _find_once(name: str, source: str, dtype: torch.dtype) -> Found:
    """One thread looks for a library; others that want the same one wait."""
    key = (name, source, dtype)
    if key not in _libraries:
        with _locks.setdefault(key, Lock()):
            if key not in _libraries:
                _libraries[key] = _find(name, source, dtype)
    return _libraries[key]


def _find(name: str, source: str, dtype: torch.dtype) -> Found:
    if dtype not in REAL:
        return Found(None, f"no compiled loop for {dtype}")
    if os.environ.get("ENGRAM_COMPILE", "1") == "0":
        return Found(None, "turned off by ENGRAM_COMPILE=0")
    try:
        return _from_wheel(name, source, REAL[dtype]) or _from_compiler(name, source, REAL[dtype])
    except (OSError, RuntimeError) as error:  # whatever it is, the loop of torch operations runs
        return Found(None, str(error))


def _from_wheel(name: str, source: str, real: str) -> Found | None:
    if os.environ.get("ENGRAM_CFLAGS") is not None or not BUILT.is_dir():
        return None
    file = shipped(name, source, headers(FOLDER), real)
    for level in levels():
        with suppress(OSError):  # made for a newer system: another level will not load either, a compiler may help
            return Found(ctypes.CDLL(str(BUILT / level / file)), f"compiled: {file} of the wheel, for {level}")
    return None


def levels() -> tuple[str, ...]:
    """The levels of the wheel that this processor runs, the best first.

    ``ATEN_CPU_CAPABILITY``, which limits what torch uses, can lower the level here, never raise it.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ()
    features, allowed = torch.cpu.get_capabilities(), torch.backends.cpu.get_cpu_capability()
    runs_v3 = allowed.startswith("AVX") and all(features.get(feature) for feature in V3)
    runs_v4 = runs_v3 and allowed.startswith("AVX512") and all(features.get(feature) for feature in V4)
    return LEVELS[0 if runs_v4 else 1 if runs_v3 else 2 :]


def _from_compiler(name: str, source: str, real: str) -> Found:
    """Out of the cache, or compiled now by the first compiler that can."""
    available, texts = compilers(), headers(FOLDER)
    if not available:
        raise RuntimeError("no C compiler found (looked for $CC, cc, gcc, clang and the package ziglang)")
    made_from = (source, texts, real, FLAGS, EFFORT, platform.machine(), _processor())
    stems = {each: stem(name, made_from, each.identity(), each.processors()) for each in available}
    folder, fault = _cache()
    if not fault:
        for each in available:  # before any is started: it may hang, and another may have made the library
            if kept := _cached(folder, stems[each]):
                return kept
    faults = {}
    for each in available:
        for place in (None,) if fault else (folder, None):  # None: where the system keeps temporary files
            try:
                loaded, file = _compile(each, name, source, texts, real, place, stems[each])
            except CompileError as error:
                faults[each] = str(error)
                break
            except OSError as error:  # the disk is full, or libraries may not be loaded from there
                faults[each] = f"{each.name}: {error}"
                fault = fault or str(error)
            else:
                return Found(loaded, f"compiled: {file}" if place else f"compiled for this process alone: {fault}")
    raise RuntimeError("; ".join(faults.values()))


def _cache() -> tuple[Path, str]:
    """The folder of libraries, and why it cannot be used; empty if it can."""
    try:
        folder = cache_folder() / "loops"
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder, why_not_private(folder)
    except RuntimeError as error:  # a user without a home
        return Path(), str(error)


def _cached(folder: Path, stem: str) -> Found | None:
    for kept in folder.glob(f"{stem}-*.so"):
        with suppress(OSError):  # it does not load, or is gone: compiled again
            if not why_not_private(kept) and kept.stem == f"{stem}-{hash16(kept.read_bytes())}":
                return Found(ctypes.CDLL(str(kept)), f"compiled: {kept.name}")
    return None


def _compile(
    compiler: Compiler, name: str, source: str, headers: dict[str, str], real: str, place: Path | None, stem: str
) -> tuple[ctypes.CDLL, str]:
    """The library, loaded, and its file; kept in ``place``, or nowhere: it stays loaded when its file is gone."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as scratch:
        zig = place / "zig" if place else None
        built = compiler.compile(file_name(name), source, headers, real, compiler.processors(), Path(scratch), zig)
        content = built.read_bytes()
        _check_whole(content, f"{compiler.name} could not compile {name}.c")
        loaded = ctypes.CDLL(str(built))
        if place:
            built.chmod(0o700)
            built = built.replace(place / f"{stem}-{hash16(content)}.so")
        return loaded, built.name


def _check_whole(content: bytes, failed: str) -> None:
    """Refuse an ELF file that was cut: its table of sections comes last, and loading it ends the process."""
    if content[:5] == b"\x7fELF\x02" and len(content) >= 64:
        at, size, count = struct.unpack_from("<Q10xHH", content, 40)
        if at + size * count > len(content):
            raise CompileError(f"{failed}: the library was cut at {len(content)} bytes")


def _processor() -> str:
    """What -march=native depends on, so that a home folder shared by different machines stays safe."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
