"""``engram certify atlas``."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from engram.atlas import Range, atlas
from engram.certify import PRIME
from engram.cli._console import terminal
from engram.files import write_whole
from engram.report import atlas_page, atlas_summary, plot_atlas


@dataclass(frozen=True, kw_only=True)
class Atlas:
    """Certify every rank claim at every size up to a limit: one table, one figure, and where a printed claim fails.

    Sizes that are done are not done again: stopped by Ctrl-C, the same command goes on.

    Examples:
        engram certify atlas --max-side 256
        engram certify atlas --max-side 1024 --output atlas --jobs 2
    """

    sizes: Range = field(default_factory=Range)
    """Which sizes."""
    output: Annotated[Path, Parameter(alias="-o")] = Path("atlas")
    """The folder for certificates.jsonl, atlas.json, atlas.md and atlas.svg."""
    jobs: int | None = None
    """Processes; default: as many as cores."""
    seed: int = 0
    """Random seed of the weights."""
    prime: int = PRIME
    """p, the prime of the field in which ranks are computed."""
    json: bool = False
    """Print the table as one JSON object."""

    def run(self) -> None:
        console = terminal(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            bar = progress.add_task("matrices", total=None)
            found = atlas(
                self.sizes,
                self.output,
                seed=self.seed,
                prime=self.prime,
                jobs=self.jobs,
                tell=lambda done, all: progress.update(bar, completed=done, total=all),
            )
        write_whole(self.output / "atlas.json", json.dumps(found, separators=(",", ":")).encode() + b"\n")
        write_whole(self.output / "atlas.md", atlas_page(found).encode())
        plot_atlas(found, self.output / "atlas.svg")
        print(json.dumps(found) if self.json else atlas_summary(found))
        console.print(f"table: {self.output / 'atlas.md'}, {self.output / 'atlas.json'}")
        console.print(f"figure: {self.output / 'atlas.svg'}")
