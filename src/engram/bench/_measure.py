"""Timing that can be trusted on a noisy machine: contestants take turns, and ratios are of one run."""

import gc
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from math import exp, log
from random import Random
from statistics import median
from typing import Any

import torch

from engram.loops import status

after_round: ContextVar[Callable[[float], None]] = ContextVar("after_round", default=lambda share: None)
"""Called after each round with the share of the rounds that is done."""


def interleaved(
    contestants: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] | None = None
) -> dict[str, list[float]]:
    """Seconds of each call: every contestant once per round, so that a slow moment of the machine hits all of them.

    Each round has another random order, because a call changes caches and memory for the next one. ``clock`` defaults
    to wall time. A call that returns a float has measured its seconds itself, in another process.
    """
    clock = clock or time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for name in contestants:  # the first call pays for compiling, memory and caches
        contestants[name]()
    random = Random(0)
    for done in range(1, repeats + 1):
        gc.collect()
        gc.disable()  # else one contestant pays for collecting the garbage of another
        try:
            for name, call in random.sample(list(contestants.items()), len(contestants)):
                start = clock()
                took = call()
                seconds[name].append(took if isinstance(took, float) else clock() - start)
        finally:
            gc.enable()
        after_round.get()(done / repeats)
    return seconds


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and range in milliseconds."""
    return {"median_ms": 1e3 * median(seconds), "min_ms": 1e3 * min(seconds), "max_ms": 1e3 * max(seconds)}


def geomean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs))


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123 - a pseudo file
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "loops": status(),
    }
