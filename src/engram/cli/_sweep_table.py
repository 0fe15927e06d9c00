"""``engram sweep table``."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from engram.cli._run_words import Allow
from engram.cli._sweep_plan import File, plan_and_out
from engram.cli._sweep_show import show_table
from engram.sweep import FORMATS, over_seeds, read_results


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
