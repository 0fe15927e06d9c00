"""The role of depth at laptop scale: which widths solve a task, at each depth.

    python experiments/role_of_depth.py lag-copy runs/role        (also sinus, copy-sinus, parity, shakespeare)
    python experiments/role_of_depth.py draw runs/role docs/results

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

from engram.certify import least_hidden
from engram.tasks import CopySinus, LagCopy, Parity, Sinus, Task, TinyShakespeare
from engram.train import Settings

SEEDS = range(3)


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


def draw(folder: Path, results: Path) -> None:
    """One panel an item: median and range of the seeds against width; for the lag, threshold and floor."""
    import matplotlib.pyplot as plt

    names = [name for name in ("lag-copy", "sinus", "copy-sinus", "parity") if (folder / f"{name}.json").exists()]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.6), layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        rows = json.loads((folder / f"{name}.json").read_text())
        for number, case in enumerate(ITEMS[name].cases):
            color = f"C{number}"
            found = {width: [r["mse"] for r in rows if (r["case"], r["width"]) == (case.label, width)]
                     for width in case.widths}  # fmt: skip
            found = {width: values for width, values in found.items() if values}
            axis.plot(list(found), [median(values) for values in found.values()], "o-", color=color, label=case.label)
            axis.fill_between(list(found), [min(v) for v in found.values()], [max(v) for v in found.values()],
                              color=color, alpha=0.2, linewidth=0)  # fmt: skip
            if name == "lag-copy":
                need = least_hidden(8, case.layers, 5)
                axis.axvline(need, color=color, linestyle=":", linewidth=1)
                floor = [(n, max(0.0, 1 - n * case.layers / 40)) for n in range(5, 51)]
                axis.plot(*zip(*floor, strict=True), color=color, linewidth=0.8, alpha=0.6)
        axis.set(title=name, xlabel="hidden units n", ylabel="test MSE")
        if name == "lag-copy":
            axis.set(yscale="log", ylim=(1e-8, 2))
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7, frameon=False)
    if "lag-copy" in names:
        axes[0][0].set_title("lag-copy: dotted, n that suffices; thin, the floor 1 - nL/40", fontsize=8)
    figure.savefig(results / "role-of-depth.svg", metadata={"Date": None})
    figure.savefig(folder / "role-of-depth.png", dpi=110)
    for name in ITEMS:
        if (folder / f"{name}.json").exists():
            rows = json.loads((folder / f"{name}.json").read_text())
            (results / f"role-{name}.json").write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        measure(sys.argv[1], Path(sys.argv[2]))
