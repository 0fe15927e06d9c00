"""Compile additive.c at first use, if this machine has a C compiler, and keep the result.

Nothing needs it: without a compiler (or with ``ENGRAM_COMPILE=0``) every layer runs the loop of torch operations,
and :func:`engram.kernels.status` says so. The library lies in the user's cache folder under the hash of everything
it depends on (source, flags, compiler, processor), and appears there whole or not at all. Its name also carries the
hash of its content: loading a damaged file would end the process, so one that does not match is compiled anew.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock

import torch

from engram.places import cache_folder

# Tried in this order; the first that compiles is kept. Without OpenMP one thread does all the work.
FLAGS = (("-march=native", "-fopenmp"), ("-mcpu=native", "-fopenmp"), ("-march=native",), ())
REAL = {torch.float32: "-DDOUBLE=0", torch.float64: "-DDOUBLE=1"}

_lock = Lock()
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
        path = _compile(dtype)
        loaded = ctypes.CDLL(str(path))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        _reasons[dtype] = str(error)
        return None
    _reasons[dtype] = f"compiled: {path.name}"
    return loaded


def _compile(dtype: torch.dtype) -> Path:
    if os.environ.get("ENGRAM_COMPILE", "1") == "0":
        raise RuntimeError("turned off by ENGRAM_COMPILE=0")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("no C compiler found (looked for $CC, cc, gcc, clang)")
    source = files("engram.kernels").joinpath("additive.c").read_text()
    folder = cache_folder() / "kernels"
    key = "\n".join((source, REAL[dtype], str(FLAGS), _version(compiler), platform.machine(), _processor()))
    name = f"additive-{_hash(key.encode())}"
    for kept in folder.glob(f"{name}-*.so"):
        if kept.stem == f"{name}-{_hash(kept.read_bytes())}":
            return kept
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        code, built = Path(scratch, "additive.c"), Path(scratch, "additive.so")
        code.write_text(source)
        for flags in FLAGS:
            command = [
                compiler,
                "-std=gnu11",
                "-O3",
                "-shared",
                "-fPIC",
                REAL[dtype],
                *flags,
                str(code),
                "-o",
                str(built),
            ]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
            if done.returncode == 0:
                return built.replace(folder / f"{name}-{_hash(built.read_bytes())}.so")
    raise RuntimeError(f"{compiler} could not compile additive.c: {done.stderr.strip()[:500]}")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


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
