"""The tables of docs/results/relational-tasks.md: accuracy on unseen shapes, by what a sweep `relational-*` varies.

    engram sweep experiments/sweeps/relational-NAME.toml --out sweeps/relational
    engram sweep export experiments/sweeps/relational-NAME.toml --out sweeps/relational --format json \
      -o docs/results/relational-NAME.json
    python experiments/pages.py docs/results

A sweep that has not come to its end has no table.
"""

from pathlib import Path
from typing import Any

from attention_tables import percent
from sweep_figures import table

ROWS_AND_COLUMNS = {  # sweep: the settings that make a row, and those that make a column
    "relational-basic": (["model"], ["task"]),
    "relational-holdout": (["task"], ["holdout"]),
    "relational-context": (["model"], ["task", "context"]),
    "relational-comparison": (["model", "similarity"], ["task"]),
}


def accuracies(results: Path, name: str) -> list[list[str]]:
    """Test accuracy in %, the mean over seeds and the range, with a row and a column per setting."""
    rows, columns = ROWS_AND_COLUMNS[name]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in table(results, name):
        found.setdefault((_words(run, rows), _words(run, columns)), []).append(run)
    heads = list(dict.fromkeys(column for _, column in found))
    lines = [[", ".join(rows), *(f"{columns[0]} {head}" if head.isdigit() else head for head in heads)]]
    for row in dict.fromkeys(row for row, _ in found):
        cells = [found.get((row, head)) for head in heads]
        lines.append([row, *("-" if cell is None else percent(cell, "test_accuracy") for cell in cells)])
    return lines


def _words(run: dict[str, Any], settings: list[str]) -> str:
    return ", ".join(f"context {run[name]}" if name == "context" else str(run[name]) for name in settings)
