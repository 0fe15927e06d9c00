"""The tables of docs/results, training.md, role-of-depth.md and others, from the JSON files beside them.

    python experiments/pages.py docs/results

What stands between `<!-- table NAME -->` and `<!-- end -->` is written anew; the words around it are written by hand.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

from attention_tables import TABLES as ATTENTION
from relational_tables import accuracies
from sweep_figures import KINDS, LADDERS, ladders, table


def training(results: Path, group: str) -> str:
    """The copying problem with the settings of its paper (`printed`), or all other rows."""
    found = json.loads((results / "training.json").read_text())
    rows = [["run", "parameters", "seeds", "test", "share of the memoryless baseline", "under 2 % at step", "seconds"]]
    for name, row in found.items():
        if name.startswith("copy-printed") != (group == "printed"):
            continue
        runs, metric = row["runs"], row["metric"]
        scale, digits, unit = (100, 2, " %") if metric == "accuracy" else (1, 4 if metric == "mse" else 3, "")
        steps = [run["first_step_under_2_percent"] for run in runs]
        rows.append([
            row["title"],
            f"{runs[0]['parameters']:,}",
            f"{len(runs)}" + (f", {len(row['diverged'])} diverged" if row.get("diverged") else ""),
            f"{metric} {spread([scale * run[metric] for run in runs], digits)}{unit}",
            f"{spread([100 * run['share_of_baseline'] for run in runs], 1)} %",
            ", ".join(str(step or "-") for step in steps) if any(steps) else "-",
            spread([run["seconds"] for run in runs], 0),
        ])  # fmt: skip
    return markdown(rows)


def commands(results: Path, name: str) -> str:
    """The commands of the rows, as they were run."""
    found = json.loads((results / f"{name}.json").read_text())
    return "\n".join(["```bash", *(row["command"] for row in found.values()), "```"])


def widths(results: Path, name: str) -> str:
    """The test error by width, of a sweep over widths and depths."""
    if not (results / f"{name}.json").exists():
        return NOT_YET
    rows = [["network", "n", "parameters", "test MSE: median (range)", "seeds"]]
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table(results, name):
        found.setdefault((row.get("model"), row["layers"], row["hidden"]), []).append(row)
    for (model, layers, hidden), own in sorted(found.items(), key=lambda pair: [str(pair[0][0]), *pair[0][1:]]):
        values = [row["test_mse"] for row in own if row["status"] == "done"]
        shown = [f"{value:.2g}" for value in (median(values), min(values), max(values))] if values else ["-"] * 3
        kind = f"{KINDS[model]}, " if model in KINDS else ""
        rows.append([
            f"{kind}L = {layers}", str(hidden), f"{own[0]['parameters']:,}", f"{shown[0]} ({shown[1]} - {shown[2]})",
            f"{len(values)}" + (f", {len(own) - len(values)} diverged" if len(own) > len(values) else ""),
        ])  # fmt: skip
    return markdown(rows)


def ladder(results: Path, name: str) -> str:
    """The longest value that was solved, by budget and depth."""
    if not (results / f"{name}.json").exists():
        return NOT_YET
    _, over, _, _ = LADDERS[name]
    rows = [["parameters", "depth", "width", f"longest {over} solved, by seed", "accuracy at the first not solved"]]
    for (budget, depth), walks in ladders(table(results, name), over).items():
        longest, failed = zip(*(ends(walk, over) for walk in walks), strict=True)
        rows.append([f"{budget:,}", str(depth), str(walks[0][0]["hidden"]), ", ".join(longest), ", ".join(failed)])
    return markdown(rows)


def ends(walk: list[dict[str, Any]], over: str) -> tuple[str, str]:
    """The longest value that was solved, and the accuracy at the one that was not."""
    solved = [row[over] for row in walk if row["solved"]]
    longest, last = (str(max(solved)) if solved else "none"), walk[-1]
    if last["solved"]:
        return f"{longest} (all tried)", "-"
    accuracy = "diverged" if last["status"] != "done" else f"{100 * last['test_accuracy']:.1f} %"
    return longest, f"{accuracy} at {last[over]}"


def spread(values: list[float], digits: int) -> str:
    """The mean, and the range of several seeds."""
    shown = [f"{value:,.{digits}f}" for value in (mean(values), min(values), max(values))]
    return shown[0] if len(values) == 1 else f"{shown[0]} ({shown[1]} - {shown[2]})"


def markdown(rows: Iterable[list[str]]) -> str:
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rest])


def attention(results: Path, name: str) -> str:
    """What a sweep of the attention results reached, beside what was reported."""
    return markdown(ATTENTION[name](results, name)) if (results / f"{name}.json").exists() else NOT_YET


def relational(results: Path, name: str) -> str:
    """The accuracies of a sweep of the relational results."""
    return markdown(accuracies(results, name)) if (results / f"{name}.json").exists() else NOT_YET


NOT_YET = "This sweep has not been run to its end yet."
MAKERS: dict[str, Callable[[Path, str], str]] = {
    "training": training,
    "commands": commands,
    "widths": widths,
    "ladder": ladder,
    "attention": attention,
    "relational": relational,
}


def write(page: Path) -> None:
    """Every table of a page anew."""

    def table(found: re.Match[str]) -> str:
        maker, argument = found[1].split()
        return f"<!-- table {found[1]} -->\n{MAKERS[maker](page.parent, argument)}\n<!-- end -->"

    page.write_text(re.sub(r"<!-- table (.+?) -->.*?<!-- end -->", table, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    for name in ("training", "role-of-depth", "depth-memory", "attention-tasks", "relational-tasks"):
        write(Path(sys.argv[1]) / f"{name}.md")
