"""``engram bench``."""

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter
from rich.console import Console

from engram.bench import (
    ATTENTION_TARGETS,
    CELL_TARGETS,
    CERTIFY_TARGETS,
    ENSEMBLE_TARGETS,
    LAYER_TARGETS,
    LINEAR_TARGETS,
    MAP_TARGETS,
    PRODUCT_TARGETS,
    RUNS_TARGETS,
    TASK_TARGETS,
    TOKEN_TARGETS,
    TRAIN_TARGETS,
    attention,
    bench_attention,
    bench_cells,
    bench_certify,
    bench_ensemble,
    bench_layers,
    bench_linear,
    bench_maps,
    bench_products,
    bench_runs,
    bench_tasks,
    bench_token,
    bench_train,
    ensemble,
    layers,
    linear,
    maps,
    plot_attention,
    plot_cells,
    plot_certify,
    plot_ensemble,
    plot_layers,
    plot_linear,
    plot_maps,
    plot_products,
    plot_runs,
    plot_tasks,
    plot_token,
    plot_train,
    products,
    runs,
    tasks,
    token,
    train,
)
from engram.bench._markdown import markdown
from engram.bench.certify import BASE as CERTIFY_BASE
from engram.bench.token import BASE as TOKEN_BASE
from engram.cli._bench_progress import BenchProgress
from engram.cli._bench_show import show
from engram.errors import OptionError, check_size
from engram.figures import check_figure
from engram.files import write_whole

SHAPE = ("threads", "T", "B", "H", "D")


class Race(NamedTuple):
    """What ``engram bench NAME`` does."""

    run: Callable[..., dict[str, Any]]
    plot: Callable[..., None]
    size: tuple[str, ...]
    """What tells the rows apart."""
    base: str
    """What the times are divided by."""
    targets: dict[str, Any]
    sizes: tuple[int, int]
    """How many sizes are raced, with --quick and without."""


RACES: dict[str, Race] = {
    "layers": Race(
        bench_layers, plot_layers, SHAPE, "torch.nn.RNN", LAYER_TARGETS, (len(layers.QUICK), 2 * len(layers.SIZES))
    ),
    "cells": Race(
        bench_cells, plot_cells, SHAPE, "torch.nn.RNN", CELL_TARGETS, (len(layers.QUICK), 2 * len(layers.SIZES))
    ),
    "maps": Race(bench_maps, plot_maps, ("N",), "torch.linalg.matrix_exp", MAP_TARGETS, (1, len(maps.SIZES))),
    "certify": Race(bench_certify, plot_certify, ("side",), CERTIFY_BASE, CERTIFY_TARGETS, (1, 1)),
    "linear": Race(
        bench_linear,
        plot_linear,
        ("T", "B", "H", "N"),
        "LinearRNN, step loop",
        LINEAR_TARGETS,
        (len(linear.QUICK), len(linear.LENGTHS)),
    ),
    "products": Race(
        bench_products,
        plot_products,
        SHAPE,
        "torch.nn.RNN",
        PRODUCT_TARGETS,
        (len(products.QUICK), len(products.SIZES)),
    ),
    "token": Race(bench_token, plot_token, ("H",), TOKEN_BASE, TOKEN_TARGETS, (len(token.QUICK), len(token.SIZES))),
    "train": Race(bench_train, plot_train, ("case",), "bare loop", TRAIN_TARGETS, (1, len(train.CASES))),
    "runs": Race(bench_runs, plot_runs, ("case",), "1 at once", RUNS_TARGETS, (1, len(runs.CASES))),
    "tasks": Race(bench_tasks, plot_tasks, ("case",), tasks.PLAIN, TASK_TARGETS, (len(tasks.CASES), len(tasks.CASES))),
    "ensemble": Race(
        bench_ensemble, plot_ensemble, ("case",), ensemble.ALONE, ENSEMBLE_TARGETS, (1, len(ensemble.MODELS))
    ),
    "attention": Race(
        bench_attention,
        plot_attention,
        SHAPE[1:],
        attention.BASE,
        ATTENTION_TARGETS,
        (1 + len(attention.QUICK), 1 + len(attention.LENGTHS)),
    ),
}


@dataclass(frozen=True)
class Bench:
    """Measure speed and memory against torch.nn, peers and the arithmetic floor, as ratios within one run.

    Example: engram bench layers --quick
    """

    what: Annotated[
        Literal[
            "layers",
            "cells",
            "maps",
            "train",
            "runs",
            "ensemble",
            "tasks",
            "linear",
            "products",
            "token",
            "attention",
            "certify",
        ],
        Parameter(name="BENCHMARK"),
    ] = "layers"
    """Layers, every compiled cell (an hour or more), building recurrent matrices, training, several runs at once,
    several seeds as one, sequences of relational tasks, linear recurrences, multiplicative ones, generating token by
    token, attention by the length of the sequence (time and memory), or certificates."""
    _: KW_ONLY
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
    """Where the figure goes (.svg or .png); default: bench-layers.svg and so on."""

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
        console = Console(stderr=True)  # standard output is for the result
        race = RACES[self.what]
        with BenchProgress(console, race.sizes[0 if self.quick else 1]).shown() as tell:
            result = race.run(self.quick, self.repeats, tell, **more)
        if self.markdown is not None:
            self.markdown.parent.mkdir(parents=True, exist_ok=True)
            page = markdown(self.what, self._command(), result, race.size, race.targets)
            write_whole(self.markdown, page.encode())
        race.plot(result, figure)
        console.print(f"figure: {figure}")
        if self.json:
            print(json.dumps(result))
        else:
            show(result, race.size, race.base, race.targets)

    def _command(self) -> str:
        """What was typed, without the names of files, which are this machine's."""
        words = ["bench", self.what, *["--quick"] * self.quick, "--repeats", str(self.repeats)]
        words += ["--only", *self.only] if self.only else []
        return " ".join([*words, *["--against DIR"] * (self.against is not None), "--json"])
