"""What symmetry buys: CoRelNet with each similarity, on a task of same and different and on one of order.

    python experiments/relational_symmetry.py docs/results     (trains 24 small networks: minutes on a quiet core)

Writes relational-symmetry.json and plots it; experiments/plot_results.py plots it again. Trained with the settings of
Kerg (2022), but for 1000 and 500 iterations in place of 5000, on the hundred glyphs that engram makes.
"""

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from engram.figures import BLUE, MUTED, new_figure, rows
from engram.tasks import make_task
from engram.train import Loop, Settings, make_fabric, without_denormals

TASKS = {"identity-rules": (1000, 0.25), "comparison": (500, 0.5)}
"""Steps, and the accuracy of guessing."""
VARIANTS: dict[str, dict[str, Any]] = {
    "symmetric": {},
    "asymmetric": {"similarity": "asymmetric"},
    "symmetric, with codes": {"sensory": True},
    "difference": {"similarity": "diff"},
}
HOLDOUT, SEEDS = 95, 3


def accuracy(task: str, steps: int, options: dict[str, Any], seed: int) -> float:
    """On shapes that training never showed, after so many steps."""
    shown = make_task(task, holdout=HOLDOUT, shapes="glyphs")
    settings = Settings.of(shown, "corelnet", steps=steps, seed=seed, options=options, threads=1).resolved()
    loop = Loop(settings, make_fabric(settings))
    for _ in range(steps):
        loop.train_step()
    return loop.evaluate("test")["accuracy"]


def measure() -> dict[str, dict[str, list[float]]]:
    with without_denormals(1):
        return {
            task: {
                name: [accuracy(task, steps, options, seed) for seed in range(SEEDS)]
                for name, options in VARIANTS.items()
            }
            for task, (steps, _) in TASKS.items()
        }


def plot(results: Path) -> None:
    table = json.loads((results / "relational-symmetry.json").read_text())
    title = "CoRelNet on unseen shapes (m = 95): mean, and every seed"
    with new_figure(results / "relational-symmetry.svg", 1, 2, height=2.3, title=title) as figure:
        for axes, (task, found) in zip(figure.axes, table.items(), strict=True):
            axes.axvline(TASKS[task][1], color=MUTED, linewidth=1, linestyle=":")
            for place, values in enumerate(found.values()):
                axes.barh(place, mean(values), color=BLUE, alpha=0.35, height=0.6)
                axes.plot(values, [place] * len(values), color=BLUE, marker="o", linestyle="", markersize=4.5)
            rows(axes, list(found))
            axes.set(title=f"{task}", xlabel="test accuracy (dotted: guessing)", xlim=(0, 1.04))


if __name__ == "__main__":
    results = Path(sys.argv[1])
    (results / "relational-symmetry.json").write_text(json.dumps(measure(), indent=1) + "\n")
    plot(results)
