"""Compile additive.c at first use, if this machine has a C compiler, and keep the result.

Nothing needs it: without a compiler (or with ``ENGRAM_COMPILE=0``) every layer runs the loop of torch operations,
and :func:`engram.kernels.status` says so. The library lies in the user's cache folder under the hash of everything
it depends on (source, flags, compiler, processor), and appears there whole or not at all. Its name also carries the
hash of its content: loading a damaged file would end the process, so one that does not match is compiled anew.

Loading a library runs its code, so a cache is used only if nobody but the user can write to it; in any other case the
loops are compiled for this process alone. ``ENGRAM_CFLAGS`` replaces the flags that choose the processor, for example
``-march=x86-64``.
"""

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock

import torch

from engram.files import sha256
from engram.places import cache_folder, why_not_private

SOURCES = ("additive.c", "pool.h", "product.h")
PROCESSORS = ("-march=native", "-mcpu=native", "")  # tried in this order; the first that compiles is kept
REAL = {torch.float32: "-DDOUBLE=0", torch.float64: "-DDOUBLE=1"}

_lock = Lock()


def _new_lock() -> None:
    """In the child of a fork, where a thread that held the lock is gone."""
    global _lock
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)

_reasons: dict[torch.dtype, str] = {}


def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled loops for this dtype, or None if there are none (see :func:`reason`)."""
    if dtype not in REAL:
        return None
    with _lock:  # one thread compiles, the others wait for it
        return _library(dtype)


def reason(dtype: torch.dtype) -> str:
    """Why :func:`library` is what it is, in words."""
    library(dtype)
    return _reasons.get(dtype, f"no compiled loop for {dtype}")


@cache
def _library(dtype: torch.dtype) -> ctypes.CDLL | None:
    try:
        loaded, reason = _load(dtype)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        _reasons[dtype] = str(error)
        return None
    _reasons[dtype] = reason
    return loaded


def _load(dtype: torch.dtype) -> tuple[ctypes.CDLL, str]:
    """The library out of the cache, or compiled now; and where it came from, in words."""
    if os.environ.get("ENGRAM_COMPILE", "1") == "0":
        raise RuntimeError("turned off by ENGRAM_COMPILE=0")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("no C compiler found (looked for $CC, cc, gcc, clang)")
    sources = {name: files("engram.kernels").joinpath(name).read_text() for name in SOURCES}
    key = (str(sources), REAL[dtype], str(_processors()), _version(compiler), platform.machine(), _processor())
    name = f"additive-{sha256(chr(10).join(key).encode())[:16]}"
    folder = cache_folder() / "loops"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if fault := why_not_private(folder):
        with tempfile.TemporaryDirectory() as scratch:  # a library stays loaded when its file is gone
            built = _compile(compiler, sources, dtype, Path(scratch))
            return ctypes.CDLL(str(built)), f"compiled for this process alone: {fault}"
    for kept in folder.glob(f"{name}-*.so"):
        if not why_not_private(kept) and kept.stem == f"{name}-{sha256(kept.read_bytes())[:16]}":
            return ctypes.CDLL(str(kept)), f"compiled: {kept.name}"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        built = _compile(compiler, sources, dtype, Path(scratch))
        built.chmod(0o700)
        kept = built.replace(folder / f"{name}-{sha256(built.read_bytes())[:16]}.so")
    return ctypes.CDLL(str(kept)), f"compiled: {kept.name}"


def _compile(compiler: str, sources: dict[str, str], dtype: torch.dtype, scratch: Path) -> Path:
    for name, text in sources.items():
        (scratch / name).write_text(text)
    code, built = scratch / "additive.c", scratch / "additive.so"
    for flags in _processors():
        options = ["-std=gnu11", "-O3", "-shared", "-fPIC", "-pthread", REAL[dtype], *shlex.split(flags)]
        command = [compiler, *options, str(code), "-o", str(built), "-lm"]  # fesetenv
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
        if done.returncode == 0:
            return built
    raise RuntimeError(f"{compiler} could not compile additive.c: {done.stderr.strip()[:500]}")


def _processors() -> tuple[str, ...]:
    own = os.environ.get("ENGRAM_CFLAGS")
    return PROCESSORS if own is None else (own,)


def _version(compiler: str) -> str:
    command = [compiler, "--version"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30).stdout


def _processor() -> str:
    """What -march=native depends on, so that a home folder shared by different machines stays safe."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
