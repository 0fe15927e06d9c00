"""The figure of the sweep `relational-samples`: accuracy on held-out shapes by the number of training trials.

    python experiments/plot_results.py docs/results relational-samples

A sweep that has not come to its end has no figure.
"""

from pathlib import Path
from statistics import mean

from sweep_figures import table

from engram.figures import MARKERS, SERIES, new_figure, reference

CHANCE = {"same-different": 0.5, "rmts": 0.5, "dist3": 0.25, "identity-rules": 0.25}
"""Accuracy of guessing."""


def plot_samples(name: str, results: Path) -> None:
    """A panel per task, a line per network through the means, each seed a dot."""
    rows = table(results, name)
    models = list(dict.fromkeys(row["model"] for row in rows))
    title = "Accuracy on unseen shapes (m = 50) by training trials: each seed a dot, lines through the means"
    with new_figure(results / f"{name}.svg", 1, len(CHANCE), height=3.4, title=title, sharey=True) as figure:
        for axes, (task, chance) in zip(figure.axes, CHANCE.items(), strict=True):
            for model, color, shape in zip(models, SERIES, MARKERS, strict=False):
                own = [row for row in rows if (row["task"], row["model"], row["status"]) == (task, model, "done")]
                sizes = sorted({row["samples"] for row in own})
                means = [mean(row["test_accuracy"] for row in own if row["samples"] == size) for size in sizes]
                axes.plot(sizes, means, color=color, label=model)
                for row in own:
                    axes.plot(row["samples"], row["test_accuracy"], shape, color=color, markersize=4)
            reference(axes, chance)
            axes.set(title=task, xscale="log", xlabel="training trials", ylim=(0, 1.04))
            axes.set_xticks(sizes, [f"{size:,}" if k % 2 == 0 else "" for k, size in enumerate(sizes)], minor=False)
            axes.set_xticks([], minor=True)
        figure.axes[0].set(ylabel="test accuracy (dotted: guessing)")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(models))
