"""Which loop serves a tensor: the compiled one where it can, else the torch operations."""

from types import ModuleType

import torch
from torch import Tensor

from engram.kernels import _build, _compiled, _eager
from engram.kernels._choice import chosen


def loops(states: Tensor) -> ModuleType:
    """The module whose ``forward_loop`` and ``backward_loop`` serve this tensor."""
    if chosen() == "eager" or states.device.type != "cpu" or _build.library(states.dtype) is None:
        return _eager
    return _compiled


def status() -> dict[str, str]:
    """What would run, and why, for each dtype on the CPU.

    >>> sorted(status())
    ['float32', 'float64', 'kernel']
    """
    return {
        "kernel": chosen(),
        **{str(d).removeprefix("torch."): _build.reason(d) for d in (torch.float32, torch.float64)},
    }
