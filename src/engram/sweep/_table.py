"""The table of a sweep: one row per run, or one per setting with the spread over seeds. It holds no times, so that it
is the same to the byte however the sweep was run."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from engram.files import printable
from engram.sweep._plan import Plan, Planned, is_solved

Row = dict[str, Any]


def rows_of(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """One row per run, in the order of the sweep file: its settings, status, parameters and scores. A run that has no
    result has the status ``missing``, or ``not needed`` where its ladder ended before, or ``pruned`` in a search."""
    names = list(dict.fromkeys(name for result in results.values() for name in _scores(result)))
    found = []
    for run in plan.ends:
        shown = replace(run, until=plan.pruned.get(run.identity, 0))  # what a search saw of it last
        result = results.get(shown.key)
        row: Row = {name: run.values.get(name) for name in plan.varied}
        row |= {"status": _status(plan, shown, results), "parameters": result["parameters"] if result else None}
        if plan.search is not None:
            row |= plan.search.row(shown, results)
        if plan.solved is not None:
            row["solved"] = is_solved(plan.solved, result) if result else None
        scores = _scores(result) if result else {}
        found.append(row | {name: scores.get(name) for name in names} | {"run": run.folder})
    return found


def _status(plan: Plan, run: Planned, results: Mapping[str, Mapping[str, Any]]) -> str:
    if run.key in results:
        status = str(results[run.key]["status"])
        return "pruned" if status == "reached" else status
    return "not needed" if plan.is_open(run, results) is False else "missing"


def over_seeds(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """One row per setting: how many seeds are done, and of each score the mean, the smallest and the largest.

    On a ladder: the largest value that was solved, by seed. What changes along a ladder besides, such as a width found
    from a budget, is that of its first value.
    """
    keys = [name for name in plan.varied if name not in ("seed", plan.over if plan.solved else "")]
    groups: dict[str, list[Row]] = {}
    first: dict[int, Row] = {}  # by ladder
    for run, row in zip(plan.ends, rows_of(plan, results), strict=True):
        shown = row if run.ladder < 0 else first.setdefault(run.ladder, row)
        groups.setdefault(json.dumps([shown[name] for name in keys], default=str), []).append(row)
    table = []
    for rows in groups.values():
        row = {name: rows[0][name] for name in keys}
        table.append(row | (_longest(plan, rows) if plan.solved is not None else _spread(rows, keys)))
    return table


def _scores(result: Mapping[str, Any]) -> dict[str, float]:
    splits: dict[str, dict[str, float]] = result.get("results") or {}
    return {f"{split}_{name}": value for split, scores in splits.items() for name, value in scores.items()}


def _spread(rows: list[Row], keys: Iterable[str]) -> Row:
    done = [row for row in rows if row["status"] == "done"]
    found: Row = {"runs": len(rows), "done": len(done), "diverged": sum(row["status"] == "diverged" for row in rows)}
    if pruned := sum(row["status"] == "pruned" for row in rows):  # by a search
        found["pruned"] = pruned
    splits = [name for name in rows[0] if name.startswith(("test", "valid")) and "_" in name]
    scores = [name for name in splits if name not in keys]  # valid_samples is a setting
    for name in scores:
        values = [row[name] for row in done if row[name] is not None]
        if values:
            found |= {name: sum(values) / len(values), f"{name}_min": min(values), f"{name}_max": max(values)}
    return found


def _longest(plan: Plan, rows: list[Row]) -> Row:
    """The last solved value of every seed; one that failed the first has none, which is less than any value."""
    seeds: dict[Any, list[Row]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], []).append(row)
    longest = [([None] + [row[plan.over] for row in own if row["solved"]])[-1] for own in seeds.values()]
    order = [None, *dict.fromkeys(row[plan.over] for row in rows)]
    open_ = sum(any(row["status"] == "missing" for row in own) for own in seeds.values())
    middle = sorted(longest, key=order.index)[(len(longest) - 1) // 2]
    return {"seeds": len(seeds), "not finished": open_, f"longest {plan.over}": longest, "median": middle}


# Formats


def as_csv(rows: Iterable[Row]) -> str:
    """Comma-separated, floats to the last bit."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = columns(rows)
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def as_json(rows: Iterable[Row]) -> str:
    """A list of objects; a score that is not finite is null, since JSON has no such numbers."""
    finite = ({name: _finite(value) for name, value in row.items()} for row in rows)
    return json.dumps(list(finite), indent=1, allow_nan=False) + "\n"


def as_markdown(rows: Iterable[Row]) -> str:
    """A table of Markdown, rounded to four digits."""
    rows = list(rows)
    names = columns(rows)
    lines = [names, ["---"] * len(names), *([_short(row.get(name)) for name in names] for row in rows)]
    return "".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |\n" for line in lines)


def as_latex(rows: Iterable[Row]) -> str:
    """A tabular of LaTeX, rounded to four digits."""
    rows = list(rows)
    names = columns(rows)
    lines = [[_latex(name) for name in names], *([_latex(_short(row.get(name))) for name in names] for row in rows)]
    head, *body = [" & ".join(line) + r" \\" for line in lines]
    return "\n".join([rf"\begin{{tabular}}{{{'l' * len(names)}}}", head, r"\hline", *body, r"\end{tabular}", ""])


FORMATS: dict[str, Callable[[Iterable[Row]], str]] = {
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
    "latex": as_latex,
}


def columns(rows: Iterable[Row]) -> list[str]:
    """The names of all columns, in the order in which they come up."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: Any) -> str:
    return "" if value is None else json.dumps(value) if isinstance(value, list | tuple | bool) else str(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(_cell(value))


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in text)
