"""Validation losses on the copying problem, delay 200: four networks of 128 units, three seeds.

    python experiments/training_copy.py run runs/copy docs/results
    python experiments/training_copy.py plot docs/results

Finished runs are kept: a second call goes on after them. All twelve take about 16 minutes on one thread.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from kept import kept

from engram.figures import MUTED, Label, label_right, looks, new_figure, plain_log, reference
from engram.tasks import Copy
from engram.train import Settings

MODELS = {"exprnn": "ExpRNN", "nnrnn": "NonNormalRNN", "lstm": "LSTM", "rnn": "tanh RNN"}
SEEDS = range(3)


def run(out: Path, results: Path) -> None:
    """Train all, and store the validation losses."""
    task, found = Copy(delay=200), {}
    for model in MODELS:
        found[model] = [
            [
                (line["step"], line["loss"])
                for line in kept(Settings.of(task, model, hidden=128, seed=seed), out, f"{model}-{seed}").metrics()
                if line["split"] == "valid"
            ]
            for seed in SEEDS
        ]
    table: dict[str, Any] = {"baseline": task.memoryless_baseline, "steps": [step for step, _ in found["rnn"][0]]}
    table["valid"] = {model: [[loss for _, loss in line] for line in lines] for model, lines in found.items()}
    (results / "training-copy.json").write_text(json.dumps(table, indent=1) + "\n")


def plot(results: Path) -> None:
    """Validation loss over training steps: thin lines the seeds, a thick one the median of each network."""
    found = json.loads((results / "training-copy.json").read_text())
    title = "Copying problem, delay 200: validation loss of three seeds (thin) and their median"
    with new_figure(results / "training-copy.svg", height=4.2, title=title) as figure:
        (axes,) = figure.axes
        base = found["baseline"]
        labels = [Label(base, "without memory", MUTED), Label(0.02 * base, "2 % of it", MUTED)]
        for (model, name), look in zip(MODELS.items(), looks(list(MODELS)).values(), strict=True):
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
    if sys.argv[1] == "plot":
        plot(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
        plot(Path(sys.argv[3]))
