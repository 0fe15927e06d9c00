"""``engram bench products``: multiplicative recurrences against their plain loops and each other, in one run."""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from engram.bench._cells import steady_rac
from engram.bench._contestants import training_step
from engram.bench._measure import geomean, interleaved, machine, spread
from engram.bench._size import Size
from engram.nn import CPRNN, MIRNN, RAC, Recurrent, SecondOrderRNN

SIZES = tuple(
    Size(*shape, features)
    for shape in ((220, 10, 128), (784, 128, 128), (200, 128, 256), (200, 100, 512), (2000, 16, 128))
    for features in (1, 64)
)
QUICK = (Size(220, 10, 128, 1), Size(784, 128, 128, 1))
WIDTHS = (16, 32, 64, 128, 256)
TARGETS = {
    "MIRNN/plain loop": (0.35, None),
    "RAC/plain loop": (0.35, None),
    "MIRNN/torch.nn.RNN": (0.6, 1.0),
    "RAC/torch.nn.RNN": (0.6, 1.0),
}
"""What is asked of the additive recurrence. At most: the geometric mean, the worst size."""
LAYERS: dict[str, type[Recurrent]] = {"MIRNN": MIRNN, "RAC": RAC, "CPRNN": CPRNN}


def bench_products(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race all contestants; returns ``summary`` (ratios and exponents), ``rows`` (milliseconds) and ``machine``.

    The plain loop is :func:`engram.loops.use` ``("plain")``: one product for the input of all steps, then torch
    operations step by step, differentiated by autograd. Exponents: of the time of a step over hidden units 16 to 256,
    inputs as wide as the state (the upper layers of a deep network).
    """
    before = torch.get_num_threads()
    rows: list[dict[str, Any]] = []
    try:
        torch.set_num_threads(1)
        for size in QUICK if quick else SIZES:
            times = interleaved(_contestants(size), repeats)
            rows += [
                {"threads": 1, **size._asdict(), "contestant": name, **spread(seconds)}
                for name, seconds in times.items()
            ]
            shown = ", ".join(f"{name} {1e3 * median(times[name]):.1f} ms" for name in ("MIRNN", "MIRNN plain loop"))
            tell(f"{tuple(size)}: {shown}")
        summary: dict[str, Any] = _ratios(rows)
        widths = WIDTHS[:3] if quick else WIDTHS
        found = {name: [_step(kind, width, repeats) for width in widths] for name, kind in _TENSORS.items()}
        summary["exponents"] = {
            name: float(np.polyfit(np.log(widths[-3:]), np.log(seconds[-3:]), 1)[0]) for name, seconds in found.items()
        }
        for name, exponent in summary["exponents"].items():
            tell(f"{name}: the time of a step grows with the power {exponent:.2f} of the hidden units")
    finally:
        torch.set_num_threads(before)
    widths_ms = {name: dict(zip(widths, [1e3 * s for s in seconds], strict=True)) for name, seconds in found.items()}
    return {"summary": summary, "rows": rows, "widths_ms": widths_ms, "machine": machine()}


_TENSORS: dict[str, type[Recurrent]] = {"2RNN": SecondOrderRNN, "CPRNN": CPRNN}


def _contestants(size: Size) -> dict[str, Callable[[], None]]:
    input, gradient = torch.randn(size.T, size.B, size.D), torch.randn(size.T, size.B, size.H)
    calls = {"torch.nn.RNN": training_step(nn.RNN(size.D, size.H), input, gradient)}
    for name, kind in LAYERS.items():
        layer = steady_rac(size.D, size.H) if kind is RAC else kind(size.D, size.H)
        calls[name] = training_step(layer, input, gradient)
        calls[f"{name} uncompiled"] = training_step(layer, input, gradient, "torch")
        calls[f"{name} plain loop"] = training_step(layer, input, gradient, "plain")
    return calls


def _ratios(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    table: dict[str, list[float]] = {}
    for row in rows:
        table.setdefault(row["contestant"], []).append(row["median_ms"])
    summary = {}
    for name in LAYERS:
        for ours, theirs, label in (
            (name, f"{name} plain loop", "plain loop"),
            (name, "torch.nn.RNN", "torch.nn.RNN"),
            (f"{name} uncompiled", f"{name} plain loop", "plain loop"),
        ):
            ratios = [a / b for a, b in zip(table[ours], table[theirs], strict=True)]
            summary[f"{ours}/{label}"] = {"geomean": geomean(ratios), "worst": max(ratios)}
    return summary


def _step(kind: type[Recurrent], width: int, repeats: int) -> float:
    """Seconds of forward and backward over 20 steps of 16 rows, ``width`` inputs and hidden units."""
    layer = kind(width, width)
    call = training_step(layer, torch.randn(20, 16, width), torch.randn(20, 16, width))
    return median(interleaved({"layer": call}, repeats)["layer"])
