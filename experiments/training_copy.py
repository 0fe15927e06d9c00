"""Validation losses on the copying problem, delay 200: four networks of 128 units, three seeds.

    engram train copy --model exprnn --hidden 128 --delay 200 --seed 0 --out runs/training --name copy200-exprnn-0
    python experiments/training_copy.py collect runs/training docs/results
    python experiments/training_copy.py plot docs/results

The runs are those of docs/results/training.md, all twelve of them: exprnn, nnrnn, lstm and rnn, seeds 0, 1 and 2.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from engram.figures import MUTED, Label, dot_styles, label_right, new_figure, plain_log, reference
from engram.train import RunDirectory

MODELS = {"exprnn": "ExpRNN", "nnrnn": "NonNormalRNN", "lstm": "LSTM", "rnn": "tanh RNN"}
SEEDS = range(3)


def collect(out: Path, results: Path) -> None:
    """Store the validation losses of the runs."""
    table: dict[str, Any] = {"valid": {}}
    for model in MODELS:
        runs = [RunDirectory(out / f"copy200-{model}-{seed}") for seed in SEEDS]
        lines = [[line for line in run.metrics() if line["split"] == "valid"] for run in runs]
        table["baseline"] = runs[0].settings.task.memoryless_baseline
        table["steps"] = [line["step"] for line in lines[0]]
        table["valid"][model] = [[line["loss"] for line in each] for each in lines]
    (results / "training-copy.json").write_text(json.dumps(table, indent=1) + "\n")


def plot(results: Path) -> None:
    """Validation loss over training steps: thin lines the seeds, a thick one the median of each network."""
    found = json.loads((results / "training-copy.json").read_text())
    title = "Copying problem, delay 200: validation loss of three seeds (thin) and their median"
    with new_figure(results / "training-copy.svg", height=4.2, title=title) as figure:
        (axes,) = figure.axes
        base = found["baseline"]
        labels = [Label(base, "without memory", MUTED), Label(0.02 * base, "2 % of it", MUTED)]
        for (model, name), look in zip(MODELS.items(), dot_styles(list(MODELS)).values(), strict=True):
            lines = found["valid"][model]
            for line in lines:
                axes.plot(found["steps"], line, color=look.color, linewidth=0.7)
            medians = [median(values) for values in zip(*lines, strict=True)]
            axes.plot(found["steps"], medians, color=look.color, linewidth=2.2, marker=look.marker)
            labels.append(Label(medians[-1], name, look.color))
        for label in labels[:2]:
            reference(axes, label.y)
        axes.set(xlabel="training step", ylabel="validation loss (nats per step, log scale)", yscale="log")
        plain_log(axes.yaxis)
        label_right(axes, labels)


if __name__ == "__main__":
    if sys.argv[1] == "collect":
        collect(Path(sys.argv[2]), Path(sys.argv[3]))
    plot(Path(sys.argv[-1]))
