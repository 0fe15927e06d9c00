"""``engram sweep export``."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._run_words import Allow
from engram.cli._sweep_plan import File, plan_and_out
from engram.files import printable, write_whole
from engram.sweep import FORMATS, over_seeds, read_results, rows_of


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
