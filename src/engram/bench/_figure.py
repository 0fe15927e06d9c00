"""The picture of a bench: one panel a thread count, one group of bars a size, time relative to torch.nn.RNN."""

from pathlib import Path
from typing import Any

from engram.pictures import save_picture

SHOWN = (
    ("engram", "#0b5fa5"),
    ("engram-cayley", "#5aa0d8"),
    ("torch.nn.RNN", "#888888"),
    ("torch.nn.LSTM", "#bbbbbb"),
    ("python-loop", "#d98c3f"),
    ("geotorch", "#b04a3a"),
)


PRODUCTS = (
    ("MIRNN", "#0b5fa5"),
    ("MIRNN plain loop", "#5aa0d8"),
    ("RAC", "#2f7d4f"),
    ("RAC plain loop", "#8cc7a1"),
    ("CPRNN", "#d98c3f"),
    ("CPRNN plain loop", "#eec79b"),
    ("torch.nn.RNN", "#888888"),
)


def draw_products(result: dict[str, Any], path: Path) -> None:
    """As :func:`draw_layers`, for the layers that multiply."""
    draw_layers(result, path, PRODUCTS)


def draw_layers(result: dict[str, Any], path: Path, shown: tuple[tuple[str, str], ...] = SHOWN) -> None:
    """Write the figure (SVG or PNG, by the ending of the path)."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    threads = sorted({row["threads"] for row in result["rows"]})
    figure = Figure(figsize=(11, 0.6 + 3 * len(threads)), layout="constrained")
    axes = figure.subplots(len(threads), 1, squeeze=False)
    for axis, count in zip(axes[:, 0], threads, strict=True):
        sizes: dict[tuple[int, ...], dict[str, float]] = {}
        for row in result["rows"]:
            if row["threads"] == count:
                key = (row["T"], row["B"], row["H"], row["D"])
                sizes.setdefault(key, {})[row["contestant"]] = row["median_ms"]
        names = [(name, color) for name, color in shown if all(name in times for times in sizes.values())]
        width = 0.84 / len(names)
        for i, (name, color) in enumerate(names):
            heights = [times[name] / times["torch.nn.RNN"] for times in sizes.values()]
            places = [k + (i - len(names) / 2 + 0.5) * width for k in range(len(sizes))]
            axis.bar(places, heights, width, label=name, color=color)
        axis.axhline(1, color="#555555", linewidth=0.8, linestyle=":")
        axis.set_yscale("log")
        axis.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"], minor=False)
        axis.minorticks_off()
        axis.set_ylabel("time / torch.nn.RNN")
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}", loc="left", fontsize=10)
        axis.set_xticks(range(len(sizes)), [f"T={t} B={b}\nH={h} D={d}" for t, b, h, d in sizes], fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), ncols=len(shown), fontsize=8, frameon=False, loc="outside lower left"
    )
    figure.suptitle("Forward and backward of one layer (lower is faster)", x=0.01, ha="left", fontsize=11)
    save_picture(figure, path)


def draw_maps(result: dict[str, Any], path: Path) -> None:
    """Time to build a matrix and its gradient over N, one line a contestant."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    lines: dict[str, list[tuple[int, float]]] = {}
    for row in result["rows"]:
        lines.setdefault(row["contestant"], []).append((row["N"], row["median_ms"]))
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axis = figure.subplots()
    for name, points in sorted(lines.items(), key=lambda line: -line[1][-1][1]):
        foreign = "torch" in name
        axis.plot(*zip(*points, strict=True), marker=".", linestyle="--" if foreign else "-", label=name)
    axis.set(xscale="log", yscale="log", xlabel="N", ylabel="ms, forward + backward, one thread")
    sizes = sorted({row["N"] for row in result["rows"]})
    axis.set_xticks(sizes, [str(n) for n in sizes])
    axis.minorticks_off()
    axis.set_title("Building a recurrent matrix (dashed: torch and peers)", loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    save_picture(figure, path)


def draw_train(result: dict[str, Any], path: Path) -> None:
    """Time of a safe run over that of a bare loop, one bar a case."""
    cases: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        cases.setdefault(row["case"], {})[row["contestant"]] = row["median_ms"]
    ratios = {name: times["engram train"] / times["bare loop"] for name, times in cases.items()}
    draw_bars(ratios, "time of `engram train` / bare loop", path)


def draw_runs(result: dict[str, Any], path: Path) -> None:
    """Time of several runs at once over that of one alone."""
    times = {f"{row['case']}, {row['contestant']}": row["median_ms"] for row in result["rows"]}
    alone = {row["case"]: row["median_ms"] for row in result["rows"] if row["contestant"] == "1 at once"}
    ratios = {name: time / alone[name.rpartition(", ")[0]] for name, time in times.items()}
    draw_bars(ratios, "time until all runs are done / one run alone", path)


def draw_certify(result: dict[str, Any], path: Path) -> None:
    """Time of a certificate over that of FLINT's rank of a random matrix, one bar a case."""
    ratios = {f"{row['contestant']}\nrank {row['rank']:,}": row["ratio"] for row in result["rows"] if "ratio" in row}
    side = result["rows"][0]["side"]
    draw_bars(ratios, f"time of a certificate / FLINT's rank of a random matrix, side {side:,}", path)


def draw_bars(ratios: dict[str, float], label: str, path: Path) -> None:
    """One bar per ratio."""
    from matplotlib.figure import Figure  # slow to import, and only needed here

    figure = Figure(figsize=(7, 0.8 + 0.45 * len(ratios)), layout="constrained")
    axis = figure.subplots()
    bars = axis.barh(range(len(ratios)), list(ratios.values()), color="#0b5fa5", height=0.6)
    axis.axvline(1, color="#555555", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(ratios)), list(ratios), fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel=label, xlim=(0, max(1.2, *(1.08 * ratio for ratio in ratios.values()), 0)))
    axis.bar_label(bars, fmt="%.2f", fontsize=8, padding=3)
    axis.spines[["top", "right"]].set_visible(False)
    save_picture(figure, path)
