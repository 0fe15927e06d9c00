"""``engram bench attention``: what attention in a recurrence costs, in time per step and in memory, by the length T."""

import json
from collections.abc import Callable
from math import log
from statistics import median
from typing import Any

import torch

from engram.bench import _attention_layers as layers
from engram.bench._measure import interleaved, machine, spread
from engram.bench._memory import printed_by_child
from engram.places import free_memory

LENGTHS = (250, 500, 1000, 2000, 4000)
QUICK = (250, 500)
STREAM = 1_000_000
QUICK_STREAM = 50_000
AT = (400, 64)
"""Steps and batch at which RelLSTM is compared with torch.nn.LSTM."""
LONGEST = 20.0
"""Seconds that a training step may take; a contestant that would take longer is left out at that length."""
BASE = "torch.nn.LSTM"
LOOP = "authors' loop restated"
SHORT, LONG = LENGTHS[0], LENGTHS[-1]
TARGETS = {
    f"RelRNN, time per step, T={LONG}/T={SHORT}": (1.1, None),
    "memory exponent, RelRNN": (1.05, None),
    "memory exponent, RelLSTM": (1.05, None),
    f"RelRNN, resident memory over {STREAM:,} steps, end/start": (1.01, None),
    f"RelLSTM/{BASE}, T={AT[0]} B={AT[1]}": (2.5, None),
    f"RelRNN/{LOOP}": (0.1, None),
    f"peak memory, T={LONG}, RelRNN/RNN": (4.0, None),
}
"""At most."""


def bench_attention(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race all contestants with one thread; returns ``summary``, ``rows``, ``exponents``, ``notes`` and ``machine``.

    A row has the milliseconds of a training step (forward and backward of T steps) and ``memory_mb``, by which it
    raises the peak of a fresh process.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    names = [*layers.LAYERS, *layers.installed()]
    notes = [f"{name} is not installed, and left out" for name in layers.PEERS if name not in names]
    notes.append(_widths(names))
    rows: list[dict[str, Any]] = []
    try:
        for steps in QUICK if quick else LENGTHS:
            names = _fit(names, rows, steps, notes)
            memory = {name: layers.step_memory(name, steps) for name in names}
            times = interleaved({name: layers.training_step(layers.make(name), steps) for name in names}, repeats)
            for name, seconds in times.items():
                size = {"T": steps, "B": layers.B, "H": layers.H, "D": layers.D}
                rows.append({**size, "contestant": name, **spread(seconds), "memory_mb": memory[name]})
            shown = ", ".join(f"{name} {1e6 * median(times[name]) / steps:.0f}" for name in names)
            tell(f"T={steps}, microseconds per step: {shown}")
        summary = _summary(rows)
        summary |= _against_torch(repeats)
        stream = QUICK_STREAM if quick else STREAM
        ratio = layers.stream_growth("RelRNN", stream)
        summary[f"RelRNN, resident memory over {stream:,} steps, end/start"] = _single(ratio)
    finally:
        torch.set_num_threads(before)
    exponents = {name: {what: exponent(rows, name, what) for what in ("median_ms", "memory_mb")} for name in _all(rows)}
    for name, found in exponents.items():
        if found["median_ms"] is not None:
            notes.append(f"{name}: time grows with T^{found['median_ms']:.2f}, memory with T^{found['memory_mb']:.2f}")
    return {"summary": summary, "rows": rows, "exponents": exponents, "notes": notes, "machine": machine()}


def _all(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["contestant"] for row in rows))


def _single(ratio: float) -> dict[str, float]:
    return {"geomean": ratio, "worst": ratio}


def _widths(names: list[str]) -> str:
    """How the peers are matched."""
    peers = {name: layers.matched(name, layers.count(layers.make("RelRNN"))) for name in names if name in layers.PEERS}
    shown = [f"{name} {peer.input.out_features} ({layers.count(peer):,})" for name, peer in peers.items()]
    found = f"{layers.H} units each; RelRNN has {layers.count(layers.make('RelRNN')):,} parameters"
    return f"{found}, and the peers the widths (parameters) {', '.join(shown)}" if shown else found


def exponent(rows: list[dict[str, Any]], name: str, what: str) -> float | None:
    """The slope of log ``what`` over log T, by least squares; None of one length."""
    points = [(log(row["T"]), log(max(row[what], 1e-9))) for row in rows if row["contestant"] == name]
    if len(points) < 2:
        return None
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def _fit(names: list[str], rows: list[dict[str, Any]], steps: int, notes: list[str]) -> list[str]:
    """Those that can be expected to stay within the time and the memory at this length, from the lengths before.

    With one length before, time and memory are taken to grow with its square.
    """
    free, left = free_memory(), []
    for name in names:
        own = [row for row in rows if row["contestant"] == name]
        if own:
            grown = steps / own[-1]["T"]
            power = {what: exponent(rows, name, what) for what in ("median_ms", "memory_mb")}
            seconds = 1e-3 * own[-1]["median_ms"] * grown ** (power["median_ms"] or 2)
            megabytes = own[-1]["memory_mb"] * grown ** (power["memory_mb"] or 2)
            if seconds > LONGEST or megabytes > free / 2:
                why = f"{seconds:.0f} s per step" if seconds > LONGEST else f"{megabytes:,.0f} MB"
                notes.append(f"{name} is left out from T={steps} on: it would take about {why}")
                continue
        left.append(name)
    return left


def _summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    table = {(row["contestant"], row["T"]): row for row in rows}
    lengths = sorted({row["T"] for row in rows})
    first, last = lengths[0], lengths[-1]
    per_step = [table["RelRNN", steps]["median_ms"] / steps for steps in (last, first)]
    found = {f"RelRNN, time per step, T={last}/T={first}": _single(per_step[0] / per_step[1])}
    for name in ("RelRNN", "RelLSTM", "SAB", "MemRNN", "MemRNN, plain loop"):
        if (slope := exponent(rows, name, "memory_mb")) is not None:
            found[f"memory exponent, {name}"] = _single(slope)
    ratios = [
        table["RelRNN", steps]["median_ms"] / table[LOOP, steps]["median_ms"]
        for steps in lengths
        if (LOOP, steps) in table
    ]
    found[f"RelRNN/{LOOP}"] = {"geomean": median(ratios), "worst": max(ratios)}
    memory = table["RelRNN", last]["memory_mb"] / table["RNN", last]["memory_mb"]
    return found | {f"peak memory, T={last}, RelRNN/RNN": _single(memory)}


def _against_torch(repeats: int) -> dict[str, dict[str, float]]:
    """RelLSTM and RelRNN over torch.nn.LSTM at a size of training, in a fresh process.

    torch.nn.LSTM takes its arrays from the system at every step, unless the process has used and kept so much memory
    before: it is up to twice as fast after the long sequences of this bench as it is in a program that trains it.
    """
    steps, batch = AT
    names = (BASE, "LSTM", "RelLSTM", "RelRNN")
    program = f"from engram.bench.attention import times_here; print(times_here({names}, {steps}, {batch}, {repeats}))"
    times = json.loads(printed_by_child(program))
    return {f"{name}/{BASE}, T={steps} B={batch}": _single(times[name] / times[BASE]) for name in names[1:]}


def times_here(names: tuple[str, ...], steps: int, batch: int, repeats: int) -> str:
    """Median seconds of a training step with one thread, by contestant, as JSON."""
    torch.set_num_threads(1)
    times = interleaved({name: layers.training_step(layers.make(name), steps, batch) for name in names}, repeats)
    return json.dumps({name: median(seconds) for name, seconds in times.items()})
