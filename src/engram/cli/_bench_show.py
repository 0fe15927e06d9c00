"""The result of a benchmark as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table

from engram.cli._console import for_tables


def show(result: dict[str, Any], size: tuple[str, ...], base: str, targets: dict[str, Any]) -> None:
    """Times by size, ratios with what is asked for, and the machine."""
    console = for_tables()
    shares = ["share of best"] if any("share" in row for row in result["rows"]) else []
    memory = ["peak MB"] if any("memory_mb" in row for row in result["rows"]) else []
    rows = Table(*size, "contestant", "ms", "range", f"/ {base}", *shares, *memory, title="Times")
    for group in _groups(result["rows"], size):
        unit = next(row["median_ms"] for row in group if row["contestant"] == base)
        for row in sorted(group, key=lambda row: row["median_ms"]):
            times = [f"{row['median_ms']:.3g}", f"{row['min_ms']:.3g} - {row['max_ms']:.3g}"]
            ratio = f"{row['median_ms'] / unit:.2f}"
            share = ["" if row["share"] is None else f"{row['share']:.0%}"] if shares else []
            peak = [f"{row['memory_mb']:,.1f}"] if memory else []
            rows.add_row(*(str(row[key]) for key in size), row["contestant"], *times, ratio, *share, *peak)
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
            shown = row["note"] if "note" in row else f"{row['median_ms']:.3g}"
            table.add_row(*(str(row[key]) for key in size), row["contestant"], shown, compiling)
        console.print(table)
    for note in result.get("notes", []):
        console.print(note, highlight=False)


def _groups(rows: list[dict[str, Any]], size: tuple[str, ...]) -> list[list[dict[str, Any]]]:
    """The rows of each size."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in size), []).append(row)
    return list(groups.values())
