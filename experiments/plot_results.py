"""Plot the figures of docs/results again, from the numbers stored beside them.

    python experiments/plot_results.py docs/results              (all)
    python experiments/plot_results.py docs/results demo rac     (some)

Nothing is measured again, but demo, spectra, probes and circuit have no stored numbers: their commands run again, a
minute on a quiet machine.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attention_figures
import attention_gradients
import identification
import relational_figures
import relational_symmetry
import sweep_figures
import training_copy

from engram import bench
from engram.cli import main
from engram.report import plot_atlas

BENCHES = ("attention", "cells", "certify", "ensemble", "layers", "linear", "maps", "products", "runs", "tasks",
           "token", "train")  # fmt: skip
SPECTRA = ("exprnn", "nnrnn", "rnn", "scornn", "urnn")
TABLES = Path(__file__).parents[1] / "docs" / "results"
SWEEPS = {**sweep_figures.PLOTS, "relational-samples": relational_figures.plot_samples}
PROBES = {"exprnn": "engram.nn:ExpRNN", "lstm": "torch.nn:LSTM"}


def stored(plot: Callable[[dict[str, Any], Path], None], name: str, results: Path) -> None:
    plot(json.loads((results / f"{name}.json").read_text()), results / f"{name}.svg")


def command(words: str, name: str, results: Path) -> None:
    if main([*words.split(), str(results / f"{name}.svg")]):
        sys.exit(f"engram {words} failed")


FIGURES: dict[str, Callable[[Path], None]] = {
    **{
        f"bench-{name}": partial(stored, getattr(bench, f"plot_{name}"), f"bench-{name}")
        for name in BENCHES
        if (TABLES / f"bench-{name}.json").exists()
    },
    "atlas": partial(stored, plot_atlas, "atlas"),
    "attention-gradients": attention_gradients.plot,
    "attention-heat": partial(stored, attention_figures.plot_heat, "attention-heat"),
    "attention-trained": partial(stored, attention_figures.plot_gradients, "attention-trained"),
    "identification": identification.plot,
    "relational-symmetry": relational_symmetry.plot,
    "training-copy": training_copy.plot,
    **{name: partial(plot, name) for name, plot in SWEEPS.items() if (TABLES / f"{name}.json").exists()},
    **{
        f"spectrum-{name}": partial(command, f"plot spectrum --model {name} -o", f"spectrum-{name}") for name in SPECTRA
    },
    "rac": partial(command, "plot rac --depth 3 --steps 6 -o", "rac"),
    **{
        f"probe-{name}": partial(command, f"probe {model} --option input_size=8 hidden_size=32 -o", f"probe-{name}")
        for name, model in PROBES.items()
    },
    "demo": partial(command, "demo --figure", "demo"),
}
"""What plots each figure, by the name of its file."""

if __name__ == "__main__":
    results = Path(sys.argv[1])
    for name in sys.argv[2:] or FIGURES:
        FIGURES[name](results)
        print(results / f"{name}.svg", flush=True)
