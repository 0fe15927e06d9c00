"""``engram bench layers``: forward and backward of a whole layer, in one run, as ratios."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch

from engram.bench._contestants import ENGRAM, contestants, training_step
from engram.bench._measure import geomean, interleaved, machine, spread
from engram.bench._memory import peak_memory
from engram.bench._size import Kind, Size
from engram.bench._worker import SecondProcess
from engram.nn import RNN

SHAPES = ((220, 10, 128), (784, 128, 128), (200, 128, 256), (200, 100, 512), (2000, 16, 128))
SIZES = tuple(Size(*shape, features) for shape in SHAPES for features in (1, 64))
QUICK = (Size(220, 10, 128, 1), Size(784, 128, 128, 1))
MEMORY = Size(784, 128, 128, 1)

TARGETS = {
    "engram/torch.nn.RNN": (0.6, 1.0),
    "ExpRNN/torch.nn.RNN": (0.7, None),
    "ScoRNN/torch.nn.RNN": (0.7, None),
    "NonNormalRNN/torch.nn.RNN": (0.7, None),
    "engram-uncompiled/torch.nn.RNN": (0.85, None),
    "engram/python-loop": (0.35, None),
    "engram/earlier engram": (1.05, 1.1),
    "memory engram/python-loop": (0.5, None),
    "time per step, T=4000/T=250": (1.1, None),
}
"""At most: the geometric mean, the worst size."""

PAIRS = (
    ("engram", "torch.nn.RNN"),
    ("engram-uncompiled", "torch.nn.RNN"),
    ("engram", "python-loop"),
    ("engram", "floor"),
    ("engram-modrelu", "torch.nn.RNN"),
    ("engram-modrelu", "python-loop-modrelu"),
    ("engram-exponential", "torch.nn.RNN"),
    ("engram-cayley", "torch.nn.RNN"),
    ("ExpRNN", "torch.nn.RNN"),
    ("ScoRNN", "torch.nn.RNN"),
    ("NonNormalRNN", "torch.nn.RNN"),
    ("engram-exponential", "geotorch"),
    ("engram", "torch.nn.LSTM"),
    ("engram", "torchrecurrent"),
    *((name, f"earlier {name}") for name in ENGRAM),
)


def bench_layers(
    quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print, against: Path | None = None
) -> dict[str, Any]:
    """Race all contestants; returns ``summary`` (ratios), ``rows`` (milliseconds) and ``machine``.

    Args:
        quick: two sizes and one thread.
        tell: called with one line per size.
        against: a folder with the package of an earlier engram, whose layers take part as ``earlier engram``, ...:
            in a process of its own, which takes turns with this one.
    """
    before = torch.get_num_threads()
    rows: list[dict[str, Any]] = []
    try:
        with nullcontext() if against is None else SecondProcess(against) as earlier:
            for threads in (1,) if quick else (1, 2):
                torch.set_num_threads(threads)
                for size in QUICK if quick else SIZES:
                    calls: dict[str, Callable[[], object]] = {**contestants(size)}
                    if earlier is not None:
                        calls |= earlier.contestants(
                            size, threads, {f"earlier {name}": k for name, k in ENGRAM.items()}
                        )
                    times = interleaved(calls, repeats)
                    rows += [
                        {"threads": threads, **size._asdict(), "contestant": name, **spread(seconds)}
                        for name, seconds in times.items()
                    ]
                    tell(_line(threads, size, times))
        torch.set_num_threads(1)
        summary = _summary(rows)
        loop: Kind = ("engram.bench._contestants:LoopRNN", {})
        summary["memory engram/python-loop"] = _single(
            peak_memory(ENGRAM["engram"], MEMORY) / peak_memory(loop, MEMORY)
        )
        summary["time per step, T=4000/T=250"] = _single(_growth(3 * repeats))
    finally:
        torch.set_num_threads(before)
    version = {} if earlier is None else {"against": earlier.engram["version"]}
    return {"summary": summary, "rows": rows, "machine": machine() | version}


def _single(ratio: float) -> dict[str, float]:
    return {"geomean": ratio, "worst": ratio}


def _line(threads: int, size: Size, times: dict[str, list[float]]) -> str:
    ours, theirs = median(times["engram"]), median(times["torch.nn.RNN"])
    return f"{threads} thread(s) {tuple(size)}: engram {1e3 * ours:.1f} ms, torch.nn.RNN {1e3 * theirs:.1f} ms"


def _summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each pair of contestants, the ratio of medians over all sizes and thread counts."""
    table: dict[str, list[float]] = {}
    for row in rows:
        table.setdefault(row["contestant"], []).append(row["median_ms"])
    summary = {}
    for ours, theirs in PAIRS:
        if ours in table and theirs in table:
            ratios = [a / b for a, b in zip(table[ours], table[theirs], strict=True)]
            summary[f"{ours}/{theirs}"] = {"geomean": geomean(ratios), "worst": max(ratios)}
    return summary


def _growth(repeats: int) -> float:
    """Time per step at T=4000 over that at T=250: 1 if nothing grows with the length of the sequence."""
    layer, calls = RNN(1, 128), {}
    for steps in (250, 4000):
        calls[str(steps)] = training_step(layer, torch.randn(steps, 16, 1), torch.randn(steps, 16, 128))
    times = interleaved(calls, repeats)
    return median(times["4000"]) / 4000 / (median(times["250"]) / 250)
