"""A comparison of runs as a table, as CSV and as JSON."""

import csv
import io
from dataclasses import asdict
from typing import Any

from engram.files import printable
from engram.runs._compare import Comparison, Group, Spread

OF_A_RUN = ("status", "task", "model", "seed", "metric", "score", "scored_on", "chance", "loss", "memoryless_baseline")
COST = ("parameters", "step", "seconds")
"""What a table of runs says of each."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins so would be computed by a spreadsheet."""


def spread_words(spread: Spread | None, format: str = ".4g") -> str:
    """``0.98 ± 0.01``: mean and standard deviation."""
    if spread is None:
        return ""
    beside = "" if spread.deviation is None else f" ± {spread.deviation:.2g}"
    return f"{spread.mean:{format}}{beside}"


def compare_table(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table with one row per group: what differs, scores over seeds, cost."""
    several = any(len(group.runs) > 1 for group in found.groups)
    named = ["runs"] if several else ["run"]
    tasks = [] if "task" in found.differs or len(found.groups) == 1 else ["task"]
    metric = found.metrics[0] if len(found.metrics) == 1 else "score"
    head = [
        "",
        *named,
        *tasks,
        *found.differs,
        metric,
        "chance",
        "loss",
        "parameters",
        "steps taken",
        "seconds",
        "status",
    ]
    return head, [_cells(group, several, bool(tasks), len(found.metrics) > 1) for group in found.groups]


def _cells(group: Group, several: bool, task: bool, with_metric: bool) -> list[str]:
    row = group.first
    name = str(len(group.runs)) if several else printable(str(group.runs[0].folder))
    score = spread_words(group.score)
    if group.score is not None and group.score.count < len(group.runs):
        score += f" ({group.score.count} of {len(group.runs)})"
    statuses = dict.fromkeys(run.row.status for run in group.runs)
    count = {status: sum(run.row.status == status for run in group.runs) for status in statuses}
    return [
        str(group.number),
        name,
        *([row.task] if task else []),
        *(_said(value) for value in group.settings.values()),
        f"{row.metric} {score}" if with_metric and score else score,
        "" if row.chance is None else f"{row.chance:.3g}",
        spread_words(group.loss),
        "" if group.parameters is None else f"{group.parameters:,}",
        "" if group.steps is None else f"{group.steps.mean:,.0f}",
        spread_words(group.seconds, ".3g"),
        ", ".join(status if len(statuses) == 1 else f"{count[status]} {status}" for status in statuses),
    ]


def _said(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def compare_json(found: Comparison) -> dict[str, Any]:
    """Everything but the curves, for JSON."""
    return {
        "differs": list(found.differs),
        "groups": [
            {
                "number": group.number,
                "label": group.label,
                "settings": group.settings,
                **{name: getattr(group.first, name) for name in ("task", "model", "metric", "chance")},
                **{
                    name: None if spread is None else asdict(spread)
                    for name, spread in (("score", group.score), ("loss", group.loss), ("seconds", group.seconds))
                },
                "steps": None if group.steps is None else group.steps.mean,
                "parameters": group.parameters,
                "runs": [{"run": str(run.folder), **run.row.flat()} for run in group.runs],
            }
            for group in found.groups
        ],
    }


def compare_csv(found: Comparison) -> str:
    """One row per run: its group, what differs, scores, cost. Texts that a spreadsheet would compute get a quote."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    differs = [name for name in found.differs if name not in OF_A_RUN]
    scores = sorted({name for run in found.runs for name in run.row.scores})
    lines.writerow(map(_cell, ["run", "group", *OF_A_RUN, *COST, *differs, *scores]))
    for group in found.groups:
        for run in group.runs:
            own = [getattr(run.row, name) for name in (*OF_A_RUN, *COST)]
            rest = [run.row.settings.get(name) for name in differs] + [run.row.scores.get(name) for name in scores]
            lines.writerow(map(_cell, [printable(str(run.folder)), group.number, *own, *rest]))
    return written.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
