"""``engram bench``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.bench import TARGETS, bench_layers, draw_layers
from engram.errors import OptionError, check_size


@dataclass(frozen=True)
class Bench:
    """Measure speed and memory against torch.nn, peers and the arithmetic floor, as ratios within one run.

    Example: engram bench layers --quick
    """

    what: Annotated[Literal["layers"], tyro.conf.Positional] = "layers"
    """What to measure."""
    quick: bool = False
    """Two sizes and one thread, in about a minute."""
    json: bool = False
    """Print one JSON object: summary, rows, machine."""
    repeats: int = 7
    """Rounds in which every contestant runs once; the median counts."""
    figure: Path = Path("bench-layers.svg")
    """Where the picture goes (.svg or .png)."""

    def run(self) -> None:
        check_size("--repeats", self.repeats)
        if self.figure.suffix not in (".svg", ".png"):
            raise OptionError(f"--figure must end in .svg or .png, got {self.figure}")
        told = Console(stderr=True)  # standard output is for the result
        with told.status("racing ...") as status:

            def tell(line: str) -> None:
                told.print(line, highlight=False)
                status.update(f"done: {line}")

            result = bench_layers(self.quick, self.repeats, tell)
        if self.json:
            print(json.dumps(result))
        else:
            _show(result)
        draw_layers(result, self.figure)
        told.print(f"figure: {self.figure}")


def _show(result: dict[str, Any]) -> None:
    console = Console()
    rows = Table(
        "threads", "T", "B", "H", "D", "contestant", "ms", "range", "/ torch.nn.RNN", title="Forward + backward"
    )
    for group in _groups(result["rows"]):
        base = next(row["median_ms"] for row in group if row["contestant"] == "torch.nn.RNN")
        for row in sorted(group, key=lambda row: row["median_ms"]):
            size = [str(row[key]) for key in ("threads", "T", "B", "H", "D")]
            times = [f"{row['median_ms']:.1f}", f"{row['min_ms']:.1f} - {row['max_ms']:.1f}"]
            rows.add_row(*size, row["contestant"], *times, f"{row['median_ms'] / base:.2f}")
        rows.add_section()
    console.print(rows)
    table = Table("ratio", "geometric mean", "worst", "asked for", title="Summary (below 1: engram needs less)")
    for name, ratio in result["summary"].items():
        mean, worst = TARGETS.get(name, (None, None))
        asked = ", ".join([f"mean <= {mean}"] * bool(mean) + [f"worst <= {worst}"] * bool(worst))
        table.add_row(name, f"{ratio['geomean']:.2f}", f"{ratio['worst']:.2f}", asked)
    console.print(table)
    machine = result["machine"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load_average'][0]}, torch {machine['torch']}"
    )


def _groups(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each size and thread count."""
    groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in ("threads", "T", "B", "H", "D")), []).append(row)
    return list(groups.values())
