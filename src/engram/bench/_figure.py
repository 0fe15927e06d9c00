"""The figure of each bench, from its result: ratios as dots or bars, times over a size as lines."""

from pathlib import Path
from typing import Any

from engram.figures import (
    BLUE,
    GREEN,
    MUTED,
    ORANGE,
    RED,
    ROW,
    SKY,
    Dots,
    Label,
    bars,
    dot_styles,
    dots,
    label_right,
    new_figure,
    plain_log,
)

Result = dict[str, Any]
"""What a bench returns: summary, rows, machine."""

LAYERS = {
    "engram": Dots(BLUE, "o"),
    "engram-cayley": Dots(SKY, "v"),
    "python-loop": Dots(ORANGE, "^"),
    "geotorch": Dots(RED, "P"),
    "torch.nn.LSTM": Dots(MUTED, "D", filled=False),
}
PRODUCTS = {
    name + loop: Dots(color, marker, filled=not loop)
    for name, color, marker in (("MIRNN", BLUE, "o"), ("RAC", GREEN, "^"), ("CPRNN", ORANGE, "s"))
    for loop in ("", " plain loop")
}
LINEAR = {"S4D": BLUE, "S4": SKY, "LinearRNN": ORANGE}
LINEAR_STYLES = {"": "-", "step loop": ":", "blocks": "--"}


def plot_layers(result: Result, path: Path, series: dict[str, Dots] | None = None) -> None:
    """Plot times over that of torch.nn.RNN, one panel per number of threads and one row per size. SVG or PNG."""
    series = series or LAYERS
    threads = sorted({row["threads"] for row in result["rows"]})
    sizes = list(dict.fromkeys((row["T"], row["B"], row["H"], row["D"]) for row in result["rows"]))
    title = "Forward and backward pass of one layer: time / time of torch.nn.RNN (left is faster)"
    with new_figure(path, 1, len(threads), height=1.4 + ROW * len(sizes), title=title, sharey=True) as figure:
        for axes, count in zip(figure.axes, threads, strict=True):
            table: dict[str, dict[str, float]] = {f"T={t} B={b} H={h} D={d}": {} for t, b, h, d in sizes}
            for row in result["rows"]:
                if row["threads"] == count:
                    table[f"T={row['T']} B={row['B']} H={row['H']} D={row['D']}"][row["contestant"]] = row["median_ms"]
            ratios = {
                size: {name: time / times["torch.nn.RNN"] for name, time in times.items()}
                for size, times in table.items()
            }
            axes.axvline(1, color=MUTED, linewidth=1, linestyle=":")
            dots(axes, ratios, series)
            axes.set(title=f"{count} thread{'s' if count > 1 else ''}", xlabel="ratio of times (log scale)")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=6)


def plot_products(result: Result, path: Path) -> None:
    """Plot multiplicative layers and their plain loops as :func:`plot_layers` does. SVG or PNG."""
    plot_layers(result, path, PRODUCTS)


def plot_maps(result: Result, path: Path) -> None:
    """Plot the time to build a matrix and its gradient, one row per map and one dot per N. SVG or PNG."""
    table: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        table.setdefault(row["contestant"], {})[f"N = {row['N']}"] = row["median_ms"]
    series = [f"N = {n}" for n in sorted({row["N"] for row in result["rows"]})]
    table = dict(sorted(table.items(), key=lambda line: line[1].get(series[-1], 0.0)))
    title = "Building a recurrent matrix: engram's maps, and those of torch and geotorch"
    with new_figure(path, height=1.4 + ROW * len(table), title=title) as figure:
        (axes,) = figure.axes
        dots(axes, table, dot_styles(series))
        axes.set(xlabel="milliseconds, forward and backward pass on one thread (log scale)")
        figure.legend(loc="outside lower left", ncols=6)


def plot_linear(result: Result, path: Path) -> None:
    """Plot the cost per step of linear recurrences against the length of the sequence. SVG or PNG."""
    lines: dict[str, dict[int, float]] = {}
    for row in result["rows"]:
        lines.setdefault(row["contestant"], {})[row["T"]] = 1e3 * row["median_ms"] / row["T"]
    one = result["rows"][0]
    title = f"Forward and backward pass of one layer: batch {one['B']}, {one['H']} features, {one['N']} states"
    with new_figure(path, height=3.8, title=title) as figure:
        (axes,) = figure.axes
        labels = []
        for contestant, cost in lines.items():
            name, _, kind = contestant.partition(", ")
            color = LINEAR[name]
            axes.plot(list(cost), list(cost.values()), LINEAR_STYLES[kind], color=color, marker="o")
            labels.append(Label(cost[max(cost)], contestant, color))
        axes.set(xscale="log", yscale="log", xlabel="steps T (log scale)", ylabel="microseconds per step (log scale)")
        lengths = sorted({row["T"] for row in result["rows"]})
        axes.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
        axes.set_xticks([], minor=True)
        plain_log(axes.yaxis)
        label_right(axes, labels)


def plot_cells(result: Result, path: Path) -> None:
    """Plot geometric means of ratios: against named layers as bars, then one row per cell, one dot per kind of ratio.

    Names of ratios are "CELL/base", "CELL without a compiler/base", "memory CELL/base" and "one token, CELL/base".
    """
    named: dict[str, float] = {}
    table: dict[str, dict[str, float]] = {}
    for name, ratio in result["summary"].items():
        cell, _, base = name.partition("/")
        if base not in ("plain loop", "bare products"):
            named[name] = ratio["geomean"]
            continue
        kind = f"time / {base}"
        if cell.startswith("memory "):
            cell, kind = cell.removeprefix("memory "), f"memory / {base}"
        elif cell.endswith(" without a compiler"):
            cell, kind = cell.removesuffix(" without a compiler"), f"time without a compiler / {base}"
        table.setdefault(cell, {})[kind] = ratio["geomean"]
    kinds = list(dict.fromkeys(kind for row in table.values() for kind in row))
    heights = (len(named) + 1.5, len(table) + 1.5)
    title = "Compiled cells: geometric means of ratios over all sizes (left is less)"
    with new_figure(path, 2, height=1.2 + ROW * sum(heights), title=title, height_ratios=heights) as figure:
        layers, cells = figure.axes
        bars(layers, named, "time / time of the named layer")
        cells.axvline(1, color=MUTED, linewidth=1, linestyle=":")
        dots(cells, table, dot_styles(kinds))
        cells.set(xlabel="ratio (log scale)")
        figure.legend(*cells.get_legend_handles_labels(), loc="outside lower left", ncols=4)


def plot_token(result: Result, path: Path) -> None:
    """Plot the time per token over that of torch.nn.LSTM, one bar per layer. SVG or PNG."""
    base = next(iter(result["summary"])).partition("/")[2]
    ratios = {name.partition("/")[0]: ratio["geomean"] for name, ratio in result["summary"].items()}
    _plot_bars(ratios, f"time per token / {base}", path)


def plot_train(result: Result, path: Path) -> None:
    """Plot the time of a safe run over that of a bare loop, one bar per case. SVG or PNG."""
    cases: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        cases.setdefault(row["case"], {})[row["contestant"]] = row["median_ms"]
    ratios = {name: times["engram train"] / times["bare loop"] for name, times in cases.items()}
    _plot_bars(ratios, "time of engram train / time of a bare loop", path)


def plot_runs(result: Result, path: Path) -> None:
    """Plot the time of several runs at once over that of one alone. SVG or PNG."""
    times = {f"{row['case']}, {row['contestant']}": row["median_ms"] for row in result["rows"]}
    alone = {row["case"]: row["median_ms"] for row in result["rows"] if row["contestant"] == "1 at once"}
    ratios = {name: time / alone[name.rpartition(", ")[0]] for name, time in times.items()}
    _plot_bars(ratios, "time until all runs are done / time of one run alone", path)


def plot_tasks(result: Result, path: Path) -> None:
    """Plot the time of a generator of sequences over that of one in plain Python. SVG or PNG."""
    times = {(row["case"], row["contestant"]): row["median_ms"] for row in result["rows"]}
    plain = next(iter(times))[1]
    ratios = {f"{case}, {who}": time / times[case, plain] for (case, who), time in times.items() if who != plain}
    _plot_bars(ratios, "time of a sequence / time of one made in plain Python", path)


def plot_ensemble(result: Result, path: Path) -> None:
    """Plot the time of eight seeds, as one and by two workers, over that of one alone. SVG or PNG."""
    times = {(row["case"], row["contestant"]): row["median_ms"] for row in result["rows"]}
    ratios = {f"{case}, {who}": time / times[case, "1 alone"] for (case, who), time in times.items()}
    _plot_bars(ratios, "time of a step of all seeds / time of a step of one seed alone", path)


def plot_certify(result: Result, path: Path) -> None:
    """Plot the time of a certificate over that of FLINT's rank of a random matrix, one bar per case. SVG or PNG."""
    ratios = {f"{row['contestant']}, rank {row['rank']:,}": row["ratio"] for row in result["rows"] if "ratio" in row}
    side = result["rows"][0]["side"]
    _plot_bars(ratios, f"time of a certificate / time of FLINT's rank of a random matrix, side {side:,}", path)


def _plot_bars(ratios: dict[str, float], label: str, path: Path) -> None:
    with new_figure(path, height=0.7 + ROW * len(ratios)) as figure:
        bars(figure.axes[0], ratios, label)
