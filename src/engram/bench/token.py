"""``engram bench token``: one step at a time in evaluation, as text is generated, against torch.nn.LSTM."""

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import torch
from torch import nn

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.nn import GORU, GRU, LSTM, RNN, S4D, ExpRNN, HouseholderRNN, NonNormalRNN, ScoRNN

SIZES = (64, 200, 512)
QUICK = (200,)
LAYERS = 2
TOKENS = 20
"""Steps per timed call."""
BASE = "torch.nn.LSTM"
OURS = ("LSTM", "GRU", "RNN", "ExpRNN", "ExpRNN, folded", "ScoRNN", "NonNormalRNN", "HouseholderRNN", "GORU", "S4D")
TARGETS = {f"{name}/{BASE}": (1.0, None) for name in ("LSTM", "RNN", "ExpRNN", "ScoRNN", "NonNormalRNN")}
"""At most: the geometric mean, the worst size."""


KINDS: dict[str, Callable[..., nn.Module]] = {
    BASE: nn.LSTM,
    "torch.nn.RNN": nn.RNN,
    "LSTM": LSTM,
    "GRU": GRU,
    "RNN": RNN,
    "ExpRNN": ExpRNN,
    "ExpRNN, folded": lambda *sizes: ExpRNN(*sizes).fold(),
    "ScoRNN": ScoRNN,
    "NonNormalRNN": NonNormalRNN,
    "HouseholderRNN": HouseholderRNN,
    "GORU": GORU,
    "S4D": S4D,
}


def contestants(size: int, names: Iterable[str] = tuple(KINDS)) -> dict[str, Callable[[], None]]:
    """Layers of this many units and inputs, batch 1, each ready to read some tokens and hand its state on."""
    return {name: _generate(KINDS[name](size, size, LAYERS).eval(), size) for name in names}


def _generate(layer: nn.Module, size: int) -> Callable[[], None]:
    token = torch.randn(1, 1, size)

    @torch.no_grad()
    def call() -> None:
        state = None
        for _ in range(TOKENS):
            _, state = layer(token, state)

    return call


def bench_token(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race all contestants with one thread; returns ``summary`` (ratios), ``rows`` (ms per token) and ``machine``."""
    rows = _rows(KINDS, quick, repeats, tell)
    return {"summary": _ratios(rows, OURS), "rows": rows, "machine": machine()}


def token_ratios(names: Sequence[str], quick: bool, repeats: int) -> dict[str, dict[str, float]]:
    """The ratios of a few layers only."""
    return _ratios(_rows([BASE, *names], quick, repeats, lambda line: None), names)


def _rows(names: Iterable[str], quick: bool, repeats: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    try:
        for size in QUICK if quick else SIZES:
            times = interleaved(
                contestants(size, names), repeats, time.thread_time
            )  # of one thread, whatever else runs
            for name, seconds in times.items():
                rows.append({"H": size, "contestant": name, **spread([s / TOKENS for s in seconds])})
            shown = ", ".join(f"{name} {1e3 * median(times[name]) / TOKENS:.2f} ms" for name in list(times)[:6])
            tell(f"H={size}, per token: {shown}")
    finally:
        torch.set_num_threads(before)
    return rows


def _ratios(rows: list[dict[str, Any]], names: Iterable[str]) -> dict[str, dict[str, float]]:
    table = {(row["H"], row["contestant"]): row["median_ms"] for row in rows}
    summary = {}
    for name in names:
        ratios = [table[size, name] / table[size, BASE] for size in sorted({row["H"] for row in rows})]
        summary[f"{name}/{BASE}"] = {"geomean": geomean(ratios), "worst": max(ratios)}
    return summary
