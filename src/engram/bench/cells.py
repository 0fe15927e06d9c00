"""``engram bench cells``: every compiled cell against torch.nn, its plain loop and its bare products, in one run."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any, cast

import torch

from engram.bench._cells import CELLS, PEERS
from engram.bench._contestants import training_step
from engram.bench._floor import Products, floor, products_of
from engram.bench._measure import geomean, interleaved, machine, spread
from engram.bench._memory import peak_memory
from engram.bench._peers import race_peers
from engram.bench._size import Size
from engram.bench._worker import SecondProcess
from engram.bench._worker_program import make_layer
from engram.bench.layers import MEMORY, QUICK, SIZES
from engram.bench.token import token_ratios
from engram.errors import check_choice
from engram.nn import Recurrent

TARGETS: dict[str, tuple[float | None, float | None]] = {
    "LSTM/torch.nn.LSTM": (0.6, 0.9),
    "GRU/torch.nn.GRU": (0.6, 0.9),
    "LeakyRNN/RNN": (1.2, None),
    "LeakyRNN/plain loop": (0.3, None),
    "MIRNN/plain loop": (0.35, None),
    "RAC/plain loop": (0.35, None),
    "CPRNN/torch.nn.RNN": (1.0, None),
    "GORU/torch.nn.GRU": (0.8, None),
    **{f"{cell}/bare products": (1.35, None) for cell in CELLS},
    **{f"{cell} without a compiler/plain loop": (0.7, 0.95) for cell in CELLS},
    **{f"memory {cell}/plain loop": (0.5, None) for cell in CELLS},
    "one token, LSTM/torch.nn.LSTM": (1.0, None),
}
"""At most: the geometric mean, the worst size."""

PAIRS = (
    ("LSTM", "torch.nn.LSTM"),
    ("GRU", "torch.nn.GRU"),
    ("LeakyRNN", "RNN"),
    ("CPRNN", "torch.nn.RNN"),
    ("GORU", "torch.nn.GRU"),
    ("AntisymmetricRNN", "torchrecurrent AntisymmetricRNN"),
    ("LEM", "torchrecurrent LEM"),
)
PLAIN, BARE, NO_COMPILER = ", plain loop", ", bare products", ", no compiler"
BEST, SIDE = "best product", 1024
MOST_FLOPS = 2e11
"""A cell that needs more in a training step is left out at that size: SecondOrderRNN with many inputs."""


def bench_cells(
    quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print, only: Sequence[str] = ()
) -> dict[str, Any]:
    """Race all contestants; returns ``summary`` (ratios), ``shares``, ``rows`` (ms), ``peers``, ``notes``, ``machine``.

    Every cell runs compiled, as its plain loop (``use("plain")``, under autograd), without any compiler (in a process
    of its own with ``ENGRAM_COMPILE=0``), and as its bare matrix products. ``share`` is the rate of the cell's products
    over the best rate of this machine: that of a square product of side 1024 with as many threads, in the same run.

    Args:
        quick: two sizes and one thread.
        tell: called with one line per size.
        only: some of the cells; default: all.
    """
    names = [check_choice("cell", name, CELLS) for name in only] or list(CELLS)
    before, notes = torch.get_num_threads(), _missing(names)
    rows: list[dict[str, Any]] = []
    peers: list[dict[str, Any]] = []
    summary: dict[str, dict[str, float]] = {}
    try:
        with SecondProcess(ENGRAM_COMPILE="0") as worker:
            for threads in (1,) if quick else (1, 2):
                torch.set_num_threads(threads)
                for size in QUICK if quick else SIZES:
                    rows += _race(size, threads, names, repeats, worker, notes)
                    tell(_line(rows, threads, size, names))
                if "LSTM" in names:
                    peers += race_peers(threads, repeats, tell, quick)
        _add_shares(rows)
        torch.set_num_threads(1)
        summary |= _ratios(rows, names)
        for name in names:
            ratio = peak_memory(CELLS[name], MEMORY) / peak_memory(CELLS[name], MEMORY, "plain")
            summary[f"memory {name}/plain loop"] = {"geomean": ratio, "worst": ratio}
            tell(f"memory of a training step, {name}: {ratio:.2f} of the plain loop")
        if "LSTM" in names:
            summary["one token, LSTM/torch.nn.LSTM"] = token_ratios(["LSTM"], quick, repeats)["LSTM/torch.nn.LSTM"]
    finally:
        torch.set_num_threads(before)
    return {
        "summary": summary, "shares": _shares(rows), "rows": rows, "peers": peers, "notes": notes, "machine": machine()
    }  # fmt: skip


def _missing(names: list[str]) -> list[str]:
    packages = {kind[0].partition(".")[0].partition(":")[0] for cell, kind in PEERS.values() if cell in names}
    return [f"{name} is not installed, and left out" for name in sorted(packages) if not find_spec(name)]


def _race(
    size: Size, threads: int, names: list[str], repeats: int, worker: SecondProcess, notes: list[str]
) -> list[dict[str, Any]]:
    """One size: the rows of all contestants."""
    input, gradient = torch.randn(size.T, size.B, size.D), torch.randn(size.T, size.B, size.H)
    layers = {name: _layer(name, size) for name in names}
    products = {name: products_of(layer) for name, layer in layers.items()}
    heavy = [name for name, found in products.items() if found is not None and found.flops(size) > MOST_FLOPS]
    for name in heavy:
        note = f"{name} needs more than {MOST_FLOPS / 1e9:.0f} GFlop at T, B, H, D = {tuple(size)}, and is left out"
        notes += [note] if note not in notes else []
    layers = {name: layer for name, layer in layers.items() if name not in heavy}
    flops: dict[str, int | None] = {BEST: 2 * SIDE**3}
    calls: dict[str, Callable[[], object]] = {BEST: _best()}
    for name, layer in layers.items():
        calls[name] = training_step(layer, input, gradient)
        calls[name + PLAIN] = training_step(layer, input, gradient, "plain")
        if (found := products[name]) is not None:
            calls[name + BARE] = floor(found, size)
        flops |= dict.fromkeys((name, name + PLAIN, name + BARE, name + NO_COMPILER), _flops(products[name], size))
    for name, (cell, (make, options)) in PEERS.items():
        wanted = name == "torch.nn.RNN" or any(ours in layers for ours, theirs in PAIRS if theirs == name)
        if wanted and find_spec(make.partition(":")[0].partition(".")[0]):
            calls[name] = training_step(make_layer(make, size.D, size.H, options), input, gradient)
            same = products[cell] if cell in products else products_of(_layer(cell, size))
            flops[name] = _flops(same, size)
    calls |= worker.contestants(size, threads, {name + NO_COMPILER: CELLS[name] for name in layers})
    times = interleaved(calls, repeats)
    return [
        {"threads": threads, **size._asdict(), "contestant": name, **spread(seconds), "flops": flops[name]}
        for name, seconds in times.items()
    ]


def _layer(name: str, size: Size) -> Recurrent:
    make, options = CELLS[name]
    return cast(Recurrent, make_layer(make, size.D, size.H, options))


def _flops(products: Products | None, size: Size) -> int | None:
    return None if products is None else products.flops(size)


def _best() -> Callable[[], object]:
    a, b, out = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE), torch.empty(SIDE, SIDE)
    return lambda: torch.mm(a, b, out=out)


def _add_shares(rows: list[dict[str, Any]]) -> None:
    """The rate of each row over the best one that a square product reached with as many threads."""
    for threads in {row["threads"] for row in rows}:
        least = min(row["min_ms"] for row in rows if row["contestant"] == BEST and row["threads"] == threads)
        for row in rows:
            if row["threads"] == threads:
                flops = row["flops"]
                row["share"] = None if flops is None else flops / row["median_ms"] / (2 * SIDE**3 / least)


def _line(rows: list[dict[str, Any]], threads: int, size: Size, names: list[str]) -> str:
    times = {row["contestant"]: row["median_ms"] for row in rows if _key(row) == (threads, *size)}
    shown = [f"{name} {times[name]:.1f} ms" for name in ("torch.nn.RNN", *names) if name in times]
    return f"{threads} thread(s) {tuple(size)}: {', '.join(shown)}"


def _key(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[key] for key in ("threads", "T", "B", "H", "D"))


def _ratios(rows: list[dict[str, Any]], names: list[str]) -> dict[str, dict[str, float]]:
    """For each pair of contestants, the ratio of medians over all sizes and thread counts where both ran."""
    table: dict[str, dict[tuple[int, ...], float]] = {}
    for row in rows:
        table.setdefault(row["contestant"], {})[_key(row)] = row["median_ms"]
    pairs = [(f"{ours}/{theirs}", ours, theirs) for ours, theirs in PAIRS]
    for name in names:
        pairs.append((f"{name}/plain loop", name, name + PLAIN))
    for name in names:
        pairs.append((f"{name}/bare products", name, name + BARE))
    for name in names:
        pairs.append((f"{name} without a compiler/plain loop", name + NO_COMPILER, name + PLAIN))
    summary = {}
    for label, ours, theirs in pairs:
        both = [key for key in table.get(ours, {}) if key in table.get(theirs, {})]
        if both:
            ratios = [table[ours][key] / table[theirs][key] for key in both]
            summary[label] = {"geomean": geomean(ratios), "worst": max(ratios)}
    return summary


def _shares(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each contestant: the share of the best rate, over all sizes and thread counts."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["share"] is not None:
            found.setdefault(row["contestant"], []).append(row["share"])
    return {
        name: {"geomean": geomean(shares), "median": median(shares), "least": min(shares)}
        for name, shares in found.items()
    }
