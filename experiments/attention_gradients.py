"""How far gradients reach with attention: the law of uniform attention, and a tanh network with and without attention.

    python experiments/attention_gradients.py measure docs/results      (half a minute)
    python experiments/attention_gradients.py plot docs/results

Left: |p_T| of a state at t = 5, the gradient in the direction of an eigenvalue of V (:func:`engram.theory.responses`).
Right: ||dL/dh_5|| in a tanh network of 32 units, mean of three seeds (:func:`engram.theory.gradient_norms`).
"""

import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np

from engram.figures import MUTED, Label, dot_styles, label_right, new_figure
from engram.theory import decay_exponent, gradient_norms, responses

STEP = 5
EIGENVALUES = (0.5, 0.3, 0.0, -0.5, -0.9)
TIMES = [round(10 * 10 ** (k / 5)) for k in range(21)]  # 10 to 100,000
LENGTHS = (25, 50, 100, 200, 400, 800)
ATTENTIONS = {"none": "no attention", "uniform": "uniform", "additive": "additive"}
SEEDS = range(3)


def measure(results: Path) -> None:
    """Run everything and store the numbers."""
    chosen = {time - STEP for time in TIMES}
    run = islice(responses(np.array(EIGENVALUES), STEP), TIMES[-1] - STEP + 1)
    rows = [np.abs(row).tolist() for k, row in enumerate(run) if k in chosen]
    norms = {name: [gradient_norms(name, LENGTHS, step=STEP, seed=seed) for seed in SEEDS] for name in ATTENTIONS}
    found = {
        "eigenvalues": EIGENVALUES,
        "times": TIMES,
        "responses": [list(column) for column in zip(*rows, strict=True)],
        "lengths": LENGTHS,
        "norms": {
            name: [sum(column) / len(column) for column in zip(*each, strict=True)] for name, each in norms.items()
        },
    }
    (results / "attention-gradients.json").write_text(json.dumps(found, indent=1) + "\n")


def plot(results: Path) -> None:
    """Two panels with logarithmic axes; dotted lines are the predicted powers of T."""
    found = json.loads((results / "attention-gradients.json").read_text())
    with new_figure(results / "attention-gradients.svg", 1, 2, height=3.8) as figure:
        left, right = figure.axes
        labels, times = [], np.array(found["times"])
        lines = zip(found["eigenvalues"], found["responses"], strict=True)
        for (value, line), look in zip(lines, dot_styles([*map(str, EIGENVALUES)]).values(), strict=True):
            power = decay_exponent(value)
            left.plot(times, line, color=look.color)
            left.plot(times, line[-1] * (times / times[-1]) ** power, color=MUTED, linewidth=1, linestyle=":")
            labels.append(Label(line[-1], f"$\\lambda = {value:g}$: $T^{{{power:.2f}}}$", look.color))
        left.set(xscale="log", yscale="log", xlabel="T", title="uniform attention: $|p_T|$, predicted power dotted")
        label_right(left, labels)
        ends = []
        for (name, words), look in zip(ATTENTIONS.items(), dot_styles([*ATTENTIONS]).values(), strict=True):
            line = found["norms"][name]
            right.plot(found["lengths"], line, color=look.color, marker=look.marker)
            ends.append(Label(line[-1], words, look.color))
        right.set(yscale="log", xlabel="T", title="tanh network: norm of the gradient at $h_5$")
        label_right(right, ends)


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(Path(sys.argv[2]))
    plot(Path(sys.argv[2]))
