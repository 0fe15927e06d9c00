"""``engram size``."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from engram.cli._console import for_tables, terminal
from engram.errors import check_size
from engram.report import plot_sizes
from engram.theory import sizings


@dataclass(frozen=True, kw_only=True)
class Size:
    """Which depth and width copy with a lag at the fewest parameters, in theory? For linear RNNs.

    An exact count of what some weights can do, n = d + ceil(p d / L) units per layer; not what training finds.

    Examples:
        engram size --lag 200
        engram size --lag 8 --channels 5 --max-depth 8 -o size.svg
    """

    lag: int
    """p, the steps between an input and its copy."""
    channels: int = 1
    """d, the inputs, all of them copied."""
    max_depth: int | None = None
    """L, the most layers; default: as many as there is a use for."""
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """Where a figure goes (.svg or .png)."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        rows = sizings(check_size("--lag", self.lag), check_size("--channels", self.channels), self.max_depth)
        title = f"linear RNNs that copy with a lag of {self.lag} in theory, channels: {self.channels}"
        if self.json:
            print(json.dumps({"lag": self.lag, "channels": self.channels, "sizes": [asdict(row) for row in rows]}))
        else:
            table = Table(title=title)
            for column in ("depth", "width", "parameters", "units", ""):
                table.add_column(column, justify="right")
            for row in rows:
                numbers = (row.depth, row.hidden, row.parameters, row.units)
                table.add_row(*(f"{number:,}" for number in numbers), "fewest" if row.fewest else "")
            for_tables().print(table)
            best = next(row for row in rows if row.fewest)
            print(f"fewest in theory: {best.parameters:,} parameters, {best.depth:,} x {best.hidden:,} units")
            print("Some weights of that size copy exactly; whether training finds them is another question.")
        if self.output is not None:
            plot_sizes(rows, self.output, title)
            terminal(stderr=True).print(f"figure: {self.output}")
