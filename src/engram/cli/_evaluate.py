"""``engram evaluate``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from engram.cli._allow import Allow
from engram.cli._console import plain
from engram.cli._options import read_options
from engram.files import printable
from engram.report import plot_curves
from engram.train import RunDirectory, evaluate


@dataclass(frozen=True)
class Evaluate:
    """Test a run, finished or not, on sequences it has not seen; draw its curves.

    Examples:
        engram evaluate runs/first --plot
        engram evaluate runs/first --option delay=2000
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    split: str | None = None
    """train, valid, test or another exam of the task (test-400 of transfer-copy); all exams unless given."""
    option: tuple[str, ...] = ()
    """Options of the task to change, as NAME=VALUE: delay=2000."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    plot: bool = False
    """Draw loss and metric over the steps to curves.svg in the run directory."""
    json: bool = False
    """Print one JSON object: scores by split."""

    def run(self) -> None:
        run, console = RunDirectory(self.folder, self.allow), plain(stderr=True)
        with console.status("evaluating ..."):
            options = read_options(self.option)
            results = evaluate(self.folder, self.split, best=not self.last, allow=self.allow, **options)
        if self.json:
            print(json.dumps(results))
        else:
            for split, scores in results.items():
                print(f"{split}: " + ", ".join(f"{name} {score:.5g}" for name, score in scores.items()))
        if self.plot:
            plot_curves(run, run.folder / "curves.svg")
            console.print(f"figure: {printable(str(run.folder / 'curves.svg'))}")
