"""What a run would cost, from a few measured steps."""

import statistics
import sys
import time
from typing import Any

import torch

from engram.train._denormals import without_denormals
from engram.train._fabric import make_fabric
from engram.train._loop import Loop
from engram.train._settings import Settings


def plan(settings: Settings, measured: int = 5) -> dict[str, Any]:
    """Settings, parameters, and the time and memory of the whole run. Trains a few steps and throws them away."""
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads or threads)
    try:
        with torch.random.fork_rng(devices=()), without_denormals():
            loop = Loop(settings, make_fabric(settings))
            times = []
            for _ in range(measured + 1):  # the first one warms up
                begin = time.perf_counter()
                loop.train_step()
                times.append(time.perf_counter() - begin)
    finally:
        torch.set_num_threads(threads)
    step = statistics.median(times[1:])
    return {
        "settings": settings.to_dict(),
        "parameters": sum(p.numel() for p in loop.network.parameters()),
        "steps": loop.total,
        "sequence_length": settings.task.steps,
        "seconds_a_step": step,
        "seconds": step * loop.total,
        "peak_memory_mb": _peak_memory(),
        "memoryless_baseline": settings.task.memoryless_baseline,
    }


def _peak_memory() -> float:
    """Of this process so far, in MB: Linux counts in kB, macOS in bytes, Windows does not."""
    if sys.platform == "win32":
        return float("nan")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
