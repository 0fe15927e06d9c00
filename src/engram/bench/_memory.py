"""The peak memory of one training step, each contestant in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import torch

from engram.bench._contestants import training_step
from engram.bench._size import Kind, Size
from engram.bench._worker_program import make_layer


def peak_memory(kind: Kind, size: Size, executor: str = "auto") -> float:
    """Megabytes by which a training step of a layer raises the peak of a fresh process."""
    return in_child(
        f"from engram.bench._memory import *; print(step_memory({kind!r}, Size{tuple(size)}, {executor!r}))"
    )


def in_child(program: str) -> float:
    """The number that a fresh process prints."""
    return float(printed_by_child(program))


def printed_by_child(program: str) -> str:
    """What a fresh process prints."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def step_memory(kind: Kind, size: Size, executor: str) -> float:
    torch.set_num_threads(1)
    warm_up = Size(2, 2, size.H, size.D)
    layer = make_layer(kind[0], size.D, size.H, kind[1])
    input, gradient = torch.randn(size.T, size.B, size.D), torch.randn(size.T, size.B, size.H)
    training_step(layer, torch.randn(*warm_up[:2], size.D), torch.randn(*warm_up[:3]), executor)()
    before = peak()
    training_step(layer, input, gradient, executor)()
    return peak() - before


def peak() -> float:
    """The peak resident memory of this process so far, in megabytes."""
    try:  # Linux: ru_maxrss would count the parent's memory at the time of the fork
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024
    except (OSError, StopIteration):
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
