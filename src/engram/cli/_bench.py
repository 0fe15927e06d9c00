"""``engram bench``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.bench import (
    CELL_TARGETS,
    CERTIFY_TARGETS,
    LAYER_TARGETS,
    LINEAR_TARGETS,
    MAP_TARGETS,
    PRODUCT_TARGETS,
    RUNS_TARGETS,
    TOKEN_TARGETS,
    TRAIN_TARGETS,
    bench_cells,
    bench_certify,
    bench_layers,
    bench_linear,
    bench_maps,
    bench_products,
    bench_runs,
    bench_token,
    bench_train,
    plot_cells,
    plot_certify,
    plot_layers,
    plot_linear,
    plot_maps,
    plot_products,
    plot_runs,
    plot_token,
    plot_train,
)
from engram.bench._markdown import markdown
from engram.bench.certify import BASE as CERTIFY_BASE
from engram.bench.token import BASE as TOKEN_BASE
from engram.errors import OptionError, check_size
from engram.figures import check_figure
from engram.files import write_whole

# What is raced, how it is drawn, what tells the rows apart, what the times are divided by, what is asked for.
RACES: dict[str, tuple[Any, Any, tuple[str, ...], str, dict[str, Any]]] = {
    "layers": (bench_layers, plot_layers, ("threads", "T", "B", "H", "D"), "torch.nn.RNN", LAYER_TARGETS),
    "cells": (bench_cells, plot_cells, ("threads", "T", "B", "H", "D"), "torch.nn.RNN", CELL_TARGETS),
    "maps": (bench_maps, plot_maps, ("N",), "torch.linalg.matrix_exp", MAP_TARGETS),
    "certify": (bench_certify, plot_certify, ("side",), CERTIFY_BASE, CERTIFY_TARGETS),
    "linear": (bench_linear, plot_linear, ("T", "B", "H", "N"), "LinearRNN, step loop", LINEAR_TARGETS),
    "products": (bench_products, plot_products, ("threads", "T", "B", "H", "D"), "torch.nn.RNN", PRODUCT_TARGETS),
    "token": (bench_token, plot_token, ("H",), TOKEN_BASE, TOKEN_TARGETS),
    "train": (bench_train, plot_train, ("case",), "bare loop", TRAIN_TARGETS),
    "runs": (bench_runs, plot_runs, ("case",), "1 at once", RUNS_TARGETS),
}


@dataclass(frozen=True)
class Bench:
    """Measure speed and memory against torch.nn, peers and the arithmetic floor, as ratios within one run.

    Example: engram bench layers --quick
    """

    what: Annotated[
        Literal["layers", "cells", "maps", "train", "runs", "linear", "products", "token", "certify"],
        tyro.conf.Positional,
    ] = "layers"
    """Layers, every compiled cell (an hour or more), building recurrent matrices, training, several runs at once,
    linear recurrences, multiplicative ones, generating token by token, or certificates."""
    quick: bool = False
    """Fewer sizes and one thread, in a few minutes at most."""
    json: bool = False
    """Print one JSON object: summary, rows, machine."""
    repeats: int = 7
    """Rounds in which every contestant runs once; the median counts."""
    against: Path | None = None
    """Layers only: a folder with an earlier engram (an unpacked wheel, or its src), raced in the same run."""
    only: tuple[str, ...] = ()
    """Cells only: some of them, for example LSTM GRU; default: all."""
    markdown: Path | None = None
    """Write the tables there, as a page of Markdown."""
    figure: Path | None = None
    """Where the picture goes (.svg or .png); bench-layers.svg and so on unless said otherwise."""

    def run(self) -> None:
        check_size("--repeats", self.repeats)
        figure = self.figure or Path(f"bench-{self.what}.svg")
        check_figure(figure, "--figure")
        more: dict[str, Any] = {}
        for flag, what in (("against", "layers"), ("only", "cells")):
            if value := getattr(self, flag):
                if self.what != what:
                    raise OptionError(f"--{flag} needs 'engram bench {what}', got {self.what}")
                more[flag] = value
        told = Console(stderr=True)  # standard output is for the result
        race, draw, size, base, targets = RACES[self.what]
        with told.status("racing ...") as status:

            def tell(line: str) -> None:
                told.print(line, highlight=False)
                status.update(f"done: {line}")

            result = race(self.quick, self.repeats, tell, **more)
        if self.markdown is not None:
            self.markdown.parent.mkdir(parents=True, exist_ok=True)
            page = markdown(self.what, self._command(), result, size, targets)
            write_whole(self.markdown, page.encode())
        draw(result, figure)
        told.print(f"figure: {figure}")
        if self.json:
            print(json.dumps(result))
        else:
            _show(result, size, base, targets)

    def _command(self) -> str:
        """What was typed, without the names of files, which are this machine's."""
        words = ["bench", self.what, *["--quick"] * self.quick, "--repeats", str(self.repeats)]
        words += ["--only", *self.only] if self.only else []
        return " ".join([*words, *["--against DIR"] * (self.against is not None), "--json"])


def _show(result: dict[str, Any], size: tuple[str, ...], base: str, targets: dict[str, Any]) -> None:
    console = Console()
    shares = ["share of best"] if any("share" in row for row in result["rows"]) else []
    rows = Table(*size, "contestant", "ms", "range", f"/ {base}", *shares, title="Times")
    for group in _groups(result["rows"], size):
        unit = next(row["median_ms"] for row in group if row["contestant"] == base)
        for row in sorted(group, key=lambda row: row["median_ms"]):
            times = [f"{row['median_ms']:.3g}", f"{row['min_ms']:.3g} - {row['max_ms']:.3g}"]
            ratio = f"{row['median_ms'] / unit:.2f}"
            share = ["" if row["share"] is None else f"{row['share']:.0%}"] if shares else []
            rows.add_row(*(str(row[key]) for key in size), row["contestant"], *times, ratio, *share)
        rows.add_section()
    console.print(rows)
    table = Table("ratio", "geometric mean", "worst", "asked for", title="Summary (below 1: engram needs less)")
    for name, ratio in result["summary"].items():
        if "geomean" in ratio:
            mean, worst = targets.get(name, (None, None))
            asked = ", ".join([f"mean <= {mean}"] * bool(mean) + [f"worst <= {worst}"] * bool(worst))
            table.add_row(name, f"{ratio['geomean']:.2f}", f"{ratio['worst']:.2f}", asked)
    console.print(table)
    for name, exponent in result["summary"].get("exponents", {}).items():
        console.print(f"time over N: {name} measured N^{exponent:.2f}", highlight=False)
    _show_more(console, result, size)
    machine = result["machine"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load_average'][0]}, torch {machine['torch']}"
    )


def _show_more(console: Console, result: dict[str, Any], size: tuple[str, ...]) -> None:
    """What only some benches have: shares of the best product, other ways to run an LSTM, what was left out."""
    if result.get("shares"):
        table = Table("contestant", "geometric mean", "least", title="Share of the best matrix product")
        for name, share in result["shares"].items():
            table.add_row(name, f"{share['geomean']:.0%}", f"{share['least']:.0%}")
        console.print(table)
    if result.get("peers"):
        table = Table(*size, "contestant", "ms", "seconds to compile", title="Other ways to run an LSTM")
        for row in result["peers"]:
            compiling = f"{row['compile_s']:.1f}" if row.get("compile_s") is not None else ""
            told = row["note"] if "note" in row else f"{row['median_ms']:.3g}"
            table.add_row(*(str(row[key]) for key in size), row["contestant"], told, compiling)
        console.print(table)
    for note in result.get("notes", []):
        console.print(note, highlight=False)


def _groups(rows: list[dict[str, Any]], size: tuple[str, ...]) -> list[list[dict[str, Any]]]:
    """The rows of each size."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in size), []).append(row)
    return list(groups.values())
