"""``engram sweep status``, ``table`` and ``export``: what a sweep has found so far."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._run_words import Allow
from engram.cli._sweep_run import check_out
from engram.cli._sweep_show import show_table
from engram.errors import EngramError, OptionError
from engram.files import printable, write_whole
from engram.sweep import FORMATS, Plan, Watch, grown, make_plan, over_seeds, read_results, read_sweep, rows_of

File = Annotated[Path | None, Parameter(name="FILE", metavar="FILE")]


@dataclass(frozen=True)
class SweepStatus:
    """Count the runs of a sweep that are done, diverged, pruned, under way, missing, or not needed.

    Example: engram sweep status copy.toml
    """

    file: File = None
    """The sweep file."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME."""
    allow: Allow = ()
    """A package or file whose code the sweep file may name; may be repeated."""
    format: Literal["text", "csv", "json", "markdown", "latex"] = "text"
    """For people (text), or a table of one row."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        plan, out = plan_and_out(self.file, self.out, self.allow)
        counts = status_of(plan, out)
        found = {"sweep": plan.name, "out": str(out), "runs": len(plan.ends), **counts}
        if self.json:
            print(json.dumps(found))
        elif self.format != "text":
            print(FORMATS[self.format]([found]), end="")
        else:
            said = ", ".join(f"{count} {name}" for name, count in counts.items())
            terminal().print(f"{plan.name}: {len(plan.ends)} runs: {said}. In {out}")


@dataclass(frozen=True)
class SweepTable:
    """Print what a sweep has found so far: one row per setting, the mean over seeds and its range.

    Example: engram sweep table copy.toml --format markdown
    """

    file: File = None
    """The sweep file."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME."""
    allow: Allow = ()
    """A package or file whose code the sweep file may name; may be repeated."""
    format: Literal["text", "csv", "json", "markdown", "latex"] = "text"
    """For people (text), with all digits (csv, json), or with four (markdown, latex)."""
    json: bool = False
    """Print a JSON list: the same as --format json."""

    def run(self) -> None:
        plan, out = plan_and_out(self.file, self.out, self.allow)
        results = read_results(plan, out)
        if self.format == "text" or self.json:
            show_table(plan, results, self.json)
        else:
            print(FORMATS[self.format](over_seeds(plan, results)), end="")


@dataclass(frozen=True)
class SweepExport:
    """Write the table of a sweep for other programs, one row per run: the same bytes however the sweep was run.

    Example: engram sweep export copy.toml --format latex --over-seeds -o copy.tex
    """

    file: File = None
    """The sweep file."""
    _: KW_ONLY
    out: Path | None = None
    """The folder of its runs; default: sweeps/NAME."""
    format: Literal["csv", "json", "markdown", "latex"] = "csv"
    """With all digits (csv, json), or with four (markdown, latex)."""
    over_seeds: bool = False
    """One row per setting, with the mean over its seeds and the range, in place of one row per run."""
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None
    """The file to write; default: standard output."""
    allow: Allow = ()
    """A package or file whose code the sweep file may name; may be repeated."""

    def run(self) -> None:
        plan, out = plan_and_out(self.file, self.out, self.allow)
        text = FORMATS[self.format]((over_seeds if self.over_seeds else rows_of)(plan, read_results(plan, out)))
        if self.output is None:
            print(text, end="")
        else:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.output, text.encode())
            terminal(stderr=True).print(f"written: {printable(str(self.output))}")


def plan_and_out(file: Path | None, out: Path | None, allow: Sequence[str]) -> tuple[Plan, Path]:
    """The plan of a sweep file, and the folder of its runs."""
    if file is None:
        raise OptionError("engram sweep needs FILE, a sweep file. engram sweep --example prints one")
    sweep = read_sweep(file)
    try:
        plan = make_plan(sweep, allow)
    except EngramError as error:
        raise OptionError(f"{file}: {error}") from None
    folder = Path("sweeps") / plan.name if out is None else out
    check_out(folder)
    return grown(plan, folder), folder


def status_of(plan: Plan, out: Path) -> dict[str, int]:
    """How many runs there are of each status."""
    results, watch = read_results(plan, out), Watch()
    counts = Counter(str(row["status"]) for row in rows_of(plan, results))
    under_way = sum(run.key not in results and watch.stale(out / run.folder) is None for run in plan.runs)
    counts["under way"], counts["missing"] = under_way, max(0, counts["missing"] - under_way)
    names = ("done", "diverged", "pruned", "under way", "missing", "not needed")
    return {name: counts[name] for name in names if counts[name]}
