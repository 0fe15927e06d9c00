"""``engram bench linear``: linear recurrences over long sequences, beside the loop over their steps.

No peer runs: of the packages of state space models, those that can be installed beside the torch of engram have no
torch layer.
"""

from collections.abc import Callable
from typing import Any

import torch

from engram.bench._contestants import training_step
from engram.bench._measure import geomean, interleaved, machine, spread
from engram.nn import S4, S4D, LinearRNN, Recurrent

LENGTHS = (1024, 4096, 16384)
QUICK = (256, 1024)
BATCH, HIDDEN, STATE = 2, 32, 64

PAIRS = (
    ("S4D", "S4D, step loop"),
    ("S4D", "S4"),
    ("LinearRNN", "LinearRNN, step loop"),
    ("LinearRNN, blocks", "LinearRNN, step loop"),
    ("LinearRNN", "LinearRNN, blocks"),
)
TARGETS: dict[str, tuple[float | None, float | None]] = {
    "S4D/S4D, step loop": (1.0, 1.0),
    "LinearRNN/LinearRNN, step loop": (1.0, 1.0),
}
"""At most: the geometric mean, the worst length."""


def contestants(steps: int) -> dict[str, Callable[[], None]]:
    """Forward and backward of one layer of H features, ``(T, B, H)`` to ``(T, B, H)``."""
    input, gradient = torch.randn(steps, BATCH, HIDDEN), torch.randn(steps, BATCH, HIDDEN)

    def step(layer: Recurrent, executor: str = "auto") -> Callable[[], None]:
        return training_step(layer, input, gradient, executor)

    return {
        "S4D": step(S4D(HIDDEN, HIDDEN, state_size=STATE)),
        "S4D, step loop": step(S4D(HIDDEN, HIDDEN, state_size=STATE), "plain"),
        "S4": step(S4(HIDDEN, HIDDEN, state_size=STATE)),
        "LinearRNN": step(LinearRNN(HIDDEN, HIDDEN)),
        "LinearRNN, blocks": step(LinearRNN(HIDDEN, HIDDEN), "torch"),
        "LinearRNN, step loop": step(LinearRNN(HIDDEN, HIDDEN), "plain"),
    }


def bench_linear(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race all contestants on one thread; returns ``summary`` (ratios), ``rows`` (milliseconds) and ``machine``.

    ``tell`` is called with one line per length.
    """
    before = torch.get_num_threads()
    rows: list[dict[str, Any]] = []
    try:
        torch.set_num_threads(1)
        for steps in QUICK if quick else LENGTHS:
            times = {name: spread(seconds) for name, seconds in interleaved(contestants(steps), repeats).items()}
            sizes = {"T": steps, "B": BATCH, "H": HIDDEN, "N": STATE}
            rows += [{**sizes, "contestant": name, **found} for name, found in times.items()]
            cost = ", ".join(f"{name} {1e3 * found['median_ms'] / steps:.1f}" for name, found in times.items())
            tell(f"T={steps}, microseconds per step: {cost}")
    finally:
        torch.set_num_threads(before)
    return {"summary": _summary(rows), "rows": rows, "machine": machine()}


def _costs(rows: list[dict[str, Any]]) -> dict[str, dict[int, float]]:
    """Microseconds per step, by contestant and length."""
    costs: dict[str, dict[int, float]] = {}
    for row in rows:
        costs.setdefault(row["contestant"], {})[row["T"]] = 1e3 * row["median_ms"] / row["T"]
    return costs


def _summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The ratio of each pair over all lengths, and the cost per step at the longest over that at the shortest."""
    costs, summary = _costs(rows), {}
    for ours, theirs in PAIRS:
        ratios = [cost / costs[theirs][steps] for steps, cost in costs[ours].items()]
        summary[f"{ours}/{theirs}"] = {"geomean": geomean(ratios), "worst": max(ratios)}
    for name, cost in costs.items():
        growth = cost[max(cost)] / cost[min(cost)]
        summary[f"time per step of {name}, T={max(cost)}/T={min(cost)}"] = {"geomean": growth, "worst": growth}
    return summary
