"""The runtime library as Python sees it: ``runtime.h`` in ctypes."""

from ctypes import CFUNCTYPE, POINTER, Structure, c_int, c_int64, c_void_p
from functools import cache

import torch

from engram.loops._build import runtime

WORK = CFUNCTYPE(c_int, c_void_p, c_int64)


class Runtime(Structure):
    """``engram_runtime``: what a generated loop calls. Pointers to numbers are addresses."""

    _fields_ = (
        ("vector", c_int64),
        ("most_rows", c_int64),
        ("packed_width", CFUNCTYPE(c_int64, c_int64)),
        ("pack", CFUNCTYPE(None, c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p)),
        (
            "multiply",
            CFUNCTYPE(None, c_int64, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_int),
        ),
        ("share", CFUNCTYPE(c_int, c_int64, c_int, WORK, c_void_p)),
    )


@cache
def functions(dtype: torch.dtype) -> Runtime | None:
    """The struct that C loops of this dtype are handed (``ctypes.byref``); None where nothing is compiled."""
    library = runtime(dtype)
    if library is None:
        return None
    library.runtime.restype = POINTER(Runtime)
    return library.runtime().contents
