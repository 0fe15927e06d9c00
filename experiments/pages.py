"""The tables of docs/results/{training,role-of-depth,depth-memory}.md, from the JSON files beside them.

    python experiments/pages.py docs/results

What stands between `<!-- table NAME -->` and `<!-- end -->` is written anew; the words around it are written by hand.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median

SOLVED = 0.99


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
            row["title"] + (" (1)" if row.get("initial_weights") == "0.1" else ""),
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


def role(results: Path, item: str) -> str:
    """An item of role_of_depth.py."""
    found = json.loads((results / f"role-{item}.json").read_text())
    metric = "bpc" if item == "shakespeare" else "mse"
    rows = [["network", "n", "parameters", f"test {metric}: median (range)", "seeds"]]
    kinds = [(row["case"], row["width"], row.get("settings")) for row in found]
    for case, width, settings in dict.fromkeys(kinds):
        own = [row for row, kind in zip(found, kinds, strict=True) if kind == (case, width, settings)]
        values = [row[metric] for row in own]
        shown = [f"{v:.3f}" if metric == "bpc" else f"{v:.2g}" for v in (median(values), min(values), max(values))]
        score = f"{shown[0]} ({shown[1]} - {shown[2]})"
        rows.append(
            [
                case + (" (1)" if settings == "fresh" else ""),
                str(width),
                f"{own[0]['parameters']:,}",
                score,
                str(len(own)),
            ]
        )
    return markdown(rows)


def depth(results: Path, task: str) -> str:
    """The longest delay that was solved, by depth."""
    found = json.loads((results / f"depth-{task}.json").read_text())
    rows = [["depth", "width", "longest solved, by seed", "accuracy at the first not solved"]]
    for layers in dict.fromkeys(row["depth"] for row in found):
        walks = [row["walk"] for row in found if row["depth"] == layers]
        longest, failed = zip(*map(ends, walks), strict=True)
        rows.append([str(layers), str(walks[0][0]["width"]), ", ".join(longest), ", ".join(failed)])
    return markdown(rows)


def ends(walk: list[dict[str, float]]) -> tuple[str, str]:
    """The longest delay that was solved, and the accuracy at the one that was not."""
    solved = [step["delay"] for step in walk if step["accuracy"] > SOLVED]
    longest = str(max(solved)) if solved else "none"
    last = walk[-1]
    if last["accuracy"] > SOLVED:
        return f"{longest} (all tried)", "-"
    return longest, f"{100 * last['accuracy']:.1f} % at {last['delay']}"


def spread(values: list[float], digits: int) -> str:
    """The mean, and the range of several seeds."""
    shown = [f"{value:,.{digits}f}" for value in (mean(values), min(values), max(values))]
    return shown[0] if len(values) == 1 else f"{shown[0]} ({shown[1]} - {shown[2]})"


def markdown(rows: Iterable[list[str]]) -> str:
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rest])


MAKERS: dict[str, Callable[[Path, str], str]] = {
    "training": training,
    "commands": commands,
    "role": role,
    "depth": depth,
}


def write(page: Path) -> None:
    """Every table of a page anew."""

    def table(found: re.Match[str]) -> str:
        maker, argument = found[1].split()
        return f"<!-- table {found[1]} -->\n{MAKERS[maker](page.parent, argument)}\n<!-- end -->"

    page.write_text(re.sub(r"<!-- table (.+?) -->.*?<!-- end -->", table, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    for name in ("training", "role-of-depth", "depth-memory"):
        write(Path(sys.argv[1]) / f"{name}.md")
