"""The role of depth at laptop scale: which widths solve a task, at each depth.

    python experiments/role_of_depth.py lag-copy runs/role        (also sinus, copy-sinus, parity, shakespeare)
    python experiments/role_of_depth.py plot runs/role docs/results

Source: "On the Role of Depth in the Expressivity of RNNs", section 4 and appendix B. Its protocol is Adam, 10,000 fixed
sequences, batch 128, no clipping, up to 1,000 epochs with a patience of 400. Parity and Shakespeare follow it but for
the number of epochs; the other items see fresh sequences, with clipping. 3 seeds. Finished runs are kept.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kept import kept
from matplotlib.lines import Line2D

from engram.figures import INK, MUTED, SERIES, Dots, dots, new_figure, reference
from engram.tasks import CopySinus, LagCopy, Parity, Sinus, Task, TinyShakespeare
from engram.theory import least_hidden
from engram.train import Settings

SEEDS = range(3)
COLORS = dict(zip((1, 2, 4, 8), SERIES, strict=False))
"""Of each depth, in all panels."""


@dataclass(frozen=True)
class Case:
    """One curve: a model at one depth, over widths."""

    label: str
    model: str
    layers: int
    widths: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the run, where they are not those of the item."""


@dataclass(frozen=True)
class Item:
    """One panel."""

    task: Task
    cases: tuple[Case, ...]
    settings: dict[str, Any]


XAVIER = {"init": "xavier"}  # of the source's program; its text has U(-1/sqrt(n), 1/sqrt(n))
FRESH = {"lr": 2e-3, "validate_every": 250, "valid_samples": 500, "test_samples": 2000}
PRINTED = {"lr": 1e-3, "clip": 0.0, "samples": 10_000, "valid_samples": 2000, "test_samples": 2000}
DEEP = {1: (16, 32, 40, 45, 50), 2: (10, 20, 25, 30), 4: (8, 12, 15, 20), 8: (6, 10, 14)}
TANH = {1: (20, 80), 2: (20, 40), 4: (16, 32), 8: (12, 24)}
ITEMS = {
    "lag-copy": Item(
        LagCopy(),
        tuple(Case(f"L = {depth}", "linear-rnn", depth, widths, XAVIER) for depth, widths in DEEP.items()),
        {**FRESH, "steps": 2500},
    ),
    "sinus": Item(
        Sinus(),
        tuple(Case(f"L = {depth}", "depth-rnn", depth, widths, XAVIER) for depth, widths in TANH.items()),
        {**FRESH, "steps": 1500},
    ),
    "copy-sinus": Item(
        CopySinus(),
        tuple(Case(f"L = {depth}", "depth-rnn", depth, widths, XAVIER) for depth, widths in TANH.items()),
        {**FRESH, "steps": 1500},
    ),
    "parity": Item(
        Parity(),
        (
            Case("tanh in the recurrence, L = 1", "rnn", 1, (10, 20)),
            Case("tanh in depth, L = 1", "depth-rnn", 1, (64,), XAVIER),
            Case("tanh in depth, L = 4", "depth-rnn", 4, (64,), XAVIER),
            Case("tanh in depth, L = 8", "depth-rnn", 8, (64,), XAVIER),
            Case("linear 2RNN, L = 1", "2rnn", 1, (5,), {"activation": "identity"}),
        ),
        {**PRINTED, "steps": 4000, "validate_every": 500},
    ),
    "shakespeare": Item(
        TinyShakespeare(),
        (
            Case("RNN, L = 1", "rnn", 1, (256,)),
            Case("RNN, L = 2", "rnn", 2, (165,)),
            Case("CPRNN, L = 1", "cprnn", 1, (114,), {"rank": 228}),  # R = 2n
            Case("S4, L = 2", "s4", 2, (131,), {"state_size": 16, "block_dropout": 0.1}, {"lr": 1e-4, "batch": 32}),
        ),
        {"lr": 1e-3, "clip": 0.0, "epochs": 5},
    ),
}


def measure(name: str, out: Path) -> None:
    """Train every width of every case with every seed; the table is written after each."""
    item, rows = ITEMS[name], []
    for seed in SEEDS:
        for case in item.cases:
            for width in case.widths:
                given = {"batch": 128, **item.settings, **case.settings, "seed": seed, "threads": 1}
                settings = Settings.of(
                    item.task, case.model, hidden=width, layers=case.layers, options=case.options, **given
                )
                run = kept(settings, out, f"{name}-{case.model}-{case.layers}-{width}-{seed}")
                scores: dict[str, Any] = run.facts["results"]["test"]
                rows.append({"case": case.label, "layers": case.layers, "width": width, "seed": seed,
                             "parameters": run.facts["parameters"], **scores})  # fmt: skip
                print(f"{name} {case.label} width {width} seed {seed}: {scores}", flush=True)
                (out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")


def plot(results: Path) -> None:
    """Test error against width, one line per depth; parity as one row per network; each seed a dot."""
    tables = {name: json.loads((results / f"role-{name}.json").read_text()) for name in ITEMS}
    title = "Test error (MSE) against width: each seed a dot, lines through the medians"
    with new_figure(results / "role-of-depth.svg", 2, 2, height=9.4, title=title) as figure:
        lag, sinus, copy_sinus, parity = figure.axes
        _plot_depths(lag, tables["lag-copy"])
        lag.set(title="Lag copy, linear\ndotted: width that suffices; thin: lower bound 1 - nL/40", yscale="log")
        lag.set(ylim=(1e-8, 3), ylabel="test MSE (log scale)")
        for depth in sorted({row["layers"] for row in tables["lag-copy"]}):
            lag.axvline(least_hidden(8, depth, 5), color=COLORS[depth], linestyle=":", linewidth=1.2)
            widths = [5 + k / 10 for k in range(10 * (40 // depth - 5) if depth < 8 else 0)]
            lag.plot(widths, [1 - n * depth / 40 for n in widths], color=COLORS[depth], linewidth=0.8)
        for axes, name in ((sinus, "sinus"), (copy_sinus, "copy-sinus")):
            _plot_depths(axes, tables[name])
            reference(axes, 0.5)
            axes.set(title=f"{name.capitalize()}, tanh in depth\n(dotted: a constant answer)", ylim=(0, 0.55))
        words = {depth: f"L = {depth} layer{'s' if depth > 1 else ''}" for depth in COLORS}
        lines = [Line2D([], [], color=color, marker="o", label=words[depth]) for depth, color in COLORS.items()]
        figure.legend(handles=lines, loc="outside lower left", ncols=len(lines))
        _plot_rows(parity, tables["parity"])
        parity.set(
            title="Parity (dotted: a constant answer;\n(1): fresh sequences, rate 2e-3)", xlabel="test MSE (log scale)"
        )


def _plot_depths(axes: Any, rows: list[dict[str, Any]]) -> None:
    for depth, color in COLORS.items():
        found: dict[int, list[float]] = {}
        for row in rows:
            if row["layers"] == depth:
                found.setdefault(row["width"], []).append(row["mse"])
        for width, values in found.items():
            axes.plot([width] * len(values), values, "o", color=color, markersize=3.5)
        axes.plot(list(found), [median(values) for values in found.values()], color=color)
    axes.set(xlabel="hidden units n per layer", ylabel="test MSE")


def _plot_rows(axes: Any, rows: list[dict[str, Any]]) -> None:
    """One row per network, its name above its dots."""
    found: dict[str, list[float]] = {}
    for row in rows:
        mark = " (1)" if row.get("settings") == "fresh" else ""
        found.setdefault(f"{row['case']}, n = {row['width']}{mark}", []).append(row["mse"])
    seeds = [f"seed {seed}" for seed in SEEDS]
    table = {name: dict(zip(seeds, values, strict=False)) for name, values in found.items()}
    axes.axvline(1, color=MUTED, linewidth=1, linestyle=":")
    dots(axes, table, dict.fromkeys(seeds, Dots(INK, "o")))
    axes.set(yticks=[], ylim=(len(table) - 0.6, -0.8))
    axes.grid(visible=False)
    for place, name in enumerate(table):
        axes.text(0.01, place - 0.25, name, transform=axes.get_yaxis_transform(), va="bottom")


if __name__ == "__main__":
    what, out = sys.argv[1], Path(sys.argv[2])
    if what == "plot":
        results = Path(sys.argv[3])
        for name in ITEMS:
            (results / f"role-{name}.json").write_text(
                json.dumps(json.loads((out / f"{name}.json").read_text())) + "\n"
            )
        plot(results)
    else:
        measure(what, out)
