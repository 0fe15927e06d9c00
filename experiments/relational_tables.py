"""The tables of docs/results/relational-tasks.md: accuracy on unseen shapes, by what a sweep `relational-*` varies.

    engram sweep experiments/sweeps/relational-NAME.toml --out sweeps/relational
    engram sweep export experiments/sweeps/relational-NAME.toml --out sweeps/relational --format json \
      -o docs/results/relational-NAME.json
    python experiments/pages.py docs/results

A sweep that has not come to its end has no table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_tables import percent
from sweep_figures import table

Row = dict[str, Any]
REPORTED = {  # Kerg (2022), Tables 5.1 and C.2: % on hexominoes and stripes, mean of ten seeds
    "same": {"corelnet": (94.7, 90.4), "esbn": (60.9, 60.5), "predinet": (99.1, 97.7), "transformer": (96.3, 93.6)},
    "between": {"corelnet": (96.6, 93.1), "esbn": (79.5, 82.5), "predinet": (94.4, 92.4), "transformer": (90.9, 87.5)},
    "occurs": {"corelnet": (96.2, 88.7), "esbn": (74.3, 73.3), "predinet": (92.9, 87.4), "transformer": (95.9, 88.7)},
    "xoccurs": {"corelnet": (92.2, 83.6), "esbn": (63.0, 64.7), "predinet": (67.2, 61.3), "transformer": (75.1, 69.4)},
    "row-matching": {"corelnet": (97.7, 94.8), "esbn": (81.1, 76.8), "predinet": (50.3, 50.5),
                     "transformer": (50.3, 50.4)},
    "colour-shape": {"corelnet": (47.2,), "esbn": (31.2,), "predinet": (74.9,), "transformer": (89.1,)},
    "left-of": {"corelnet": (99.2,), "esbn": (49.9,), "predinet": (94.9,), "transformer": (96.0,)},
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """The settings that make a row of a table and those that make a column, and sweeps whose runs belong to it too."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    beside: tuple[str, ...] = ()


VARIANT = ("similarity", "sensory", "encoder", "l1")
LAYOUTS = {
    "relational-basic": Layout(("model",), ("task",)),
    "relational-printed": Layout(("model",), ("task",)),
    "relational-holdout": Layout(("task",), ("holdout",)),
    "relational-context": Layout(("model", "context"), ("task",), ("relational-basic",)),
    "relational-comparison": Layout(("model", "similarity"), ("task",)),
    "relational-ablations": Layout(("model", *VARIANT), ("task",), ("relational-basic",)),
    "relational-unseen": Layout(("task", "without", "missing", "flipped", "restricted"), ("model",)),
    "relational-unseen-printed": Layout(("task", "without", "missing", "flipped", "restricted"), ("model",)),
    "relational-separated": Layout(("model",), ("holdout",)),
    "relational-spurious": Layout(("model", *VARIANT), ("task",)),
    "relational-samples": Layout(("task", "model"), ("samples",)),
}
WORDS: dict[str, Callable[[Any], str]] = {  # of a setting whose value alone says too little
    "context": "context {}".format, "encoder": "{} encoder".format, "holdout": "m = {}".format,
    "samples": "{:,} trials".format, "without": lambda names: f"without {', '.join(names)}",
    "l1": lambda weight: "L1", "sensory": lambda yes: "with codes", "missing": lambda yes: "missing",
    "flipped": lambda yes: "flipped", "restricted": lambda yes: "restricted",
}  # fmt: skip


def accuracies(results: Path, name: str) -> list[list[str]]:
    """Test accuracy in %, the mean over seeds and the range, with a row and a column per setting."""
    if name == "relational-games":
        return games(table(results, name))
    layout, runs = LAYOUTS[name], table(results, name)
    models = {run.get("model") for run in runs}
    beside = [run for other in layout.beside for run in table(results, other) if run["model"] in models]
    groups: dict[str, dict[str, dict[str, list[Row]]]] = {}  # by the first setting, by row, by column
    for run in beside + runs:
        group = groups.setdefault(words(run, layout.rows[:1]), {})
        group.setdefault(words(run, layout.rows), {}).setdefault(words(run, layout.columns), []).append(run)
    rows = {row: columns for group in groups.values() for row, columns in group.items()}
    heads = list(dict.fromkeys(head for columns in rows.values() for head in columns))
    lines = [["", *(head or "accuracy" for head in heads)]]
    for row, columns in rows.items():
        lines.append([row, *(percent(columns[head], "test_accuracy") if head in columns else "-" for head in heads)])
    return lines


def games(runs: list[Row]) -> list[list[str]]:
    """Accuracy on hexominoes and on stripes by rule and model, and in brackets what was reported."""
    lines = [["rule", "objects", *(models := list(dict.fromkeys(run["model"] for run in runs)))]]
    for rule, reported in REPORTED.items():
        for k, (objects, split) in enumerate({"hexominoes": "test", "stripes": "test-stripes"}.items()):
            own = {model: [run for run in runs if (run["rule"], run["model"]) == (rule, model)] for model in models}
            if k < len(reported[models[0]]):
                cells = [f"{percent(own[model], f'{split}_accuracy')} [{reported[model][k]}]" for model in models]
                lines.append([rule, objects, *cells])
    return lines


def words(run: Row, settings: tuple[str, ...]) -> str:
    """What a run has of some settings; those left at their defaults are not told."""
    chosen = {name: run[name] for name in settings if run.get(name) is not None and run[name] is not False}
    return ", ".join(WORDS.get(name, str)(value) for name, value in chosen.items())
