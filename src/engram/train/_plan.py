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
    """Settings, parameters, and the time and memory of the whole run. Trains a few steps and throws them away.

    With several processes, those of one of them.
    """
    settings = settings.resolved()
    share = settings.replace(processes=1, batch=settings.budget.batch // settings.machine.processes)  # of one process
    with torch.random.fork_rng(devices=()), without_denormals(settings.machine.threads):
        loop = Loop(share, make_fabric(share))
        times = []
        for _ in range(measured + 1):  # the first one warms up
            start = time.perf_counter()
            loop.train_step()
            times.append(time.perf_counter() - start)
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


def _peak_memory() -> float | None:
    """Of this process so far, in MB: Linux counts in kB, macOS in bytes, Windows does not."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
