"""The result of a bench as a page of Markdown."""

from collections.abc import Mapping
from typing import Any


def markdown(what: str, command: str, result: dict[str, Any], size: tuple[str, ...], targets: Mapping[str, Any]) -> str:
    """A page like those of ``docs/results``: how it was measured, the ratios, the times.

    Args:
        command: what was typed, without the program.
        size: the keys that tell rows apart, beside the contestant.
        targets: at most, for a ratio: the geometric mean, the worst size.
    """
    machine = result["machine"]
    measured = f"{machine['processor']}, {machine['cores']} cores, load {machine['load_average'][0]}"
    versions = f"torch {machine['torch']}, Python {machine['python']}"
    lines = [
        f"# engram bench {what}",
        "",
        f"Measured by `engram {command}` on {measured}, {versions}. Medians of interleaved rounds; all numbers of the "
        f"run are in [bench-{what}.json](bench-{what}.json).",
        "",
        f"![ratios](bench-{what}.svg)",
        "",
        "| ratio (below 1: engram needs less) | geometric mean | worst size | asked for | met |",
        "|---|---|---|---|---|",
    ]
    for name, ratio in result["summary"].items():
        if "geomean" in ratio:
            limits = targets.get(name, (None, None))
            found = (ratio["geomean"], ratio["worst"])
            asked = [f"{word} ≤ {limit}" for word, limit in zip(("mean", "worst"), limits, strict=True) if limit]
            met = all(value <= limit for value, limit in zip(found, limits, strict=True) if limit)
            verdict = ("yes" if met else "**no**") if asked else ""
            lines.append(f"| {name} | {found[0]:.2f} | {found[1]:.2f} | {', '.join(asked)} | {verdict} |")
    if result.get("shares"):
        lines += ["", "Share of the best matrix product of this machine (side 1024, as many threads):", ""]
        lines += ["| contestant | geometric mean | least |", "|---|---|---|"]
        for name, share in result["shares"].items():
            lines.append(f"| {name} | {share['geomean']:.0%} | {share['least']:.0%} |")
    if result.get("peers"):
        lines += ["", "Other ways to run an LSTM, and minimal GRUs, at one size:", ""]
        lines += [f"| {', '.join(size)} | contestant | ms | seconds to compile |", "|---|---|---|---|"]
        lines += [_peer(row, size) for row in result["peers"]]
    lines += ["", *(f"- {note}" for note in result.get("notes", []))]
    lines += ["", "Milliseconds (and the share of the best product, where it is known):", "", *_times(result, size)]
    if any("memory_mb" in row for row in result["rows"]):
        lines += ["", "Peak memory of a training step, megabytes above that of the process before:", ""]
        lines += _times(result, size, "memory_mb")
    return "\n".join(lines) + "\n"


def _peer(row: dict[str, Any], size: tuple[str, ...]) -> str:
    place = f"| {', '.join(str(row[key]) for key in size)} | {row['contestant']} |"
    if "note" in row:
        return f"{place} {row['note']} | |"
    compiling = "" if row["compile_s"] is None else f"{row['compile_s']:.1f}"
    return f"{place} {row['median_ms']:.1f} | {compiling} |"


def _times(result: dict[str, Any], size: tuple[str, ...], what: str = "median_ms") -> list[str]:
    """One line per contestant, one column per size."""
    places = list(dict.fromkeys(tuple(row[key] for key in size) for row in result["rows"]))
    table: dict[str, dict[tuple[Any, ...], str]] = {}
    for row in result["rows"]:
        share = "" if row.get("share") is None or what != "median_ms" else f" ({row['share']:.0%})"
        place = tuple(row[key] for key in size)
        table.setdefault(row["contestant"], {})[place] = f"{row[what]:.3g}{share}"
    heads = [" ".join(str(number) for number in place) for place in places]
    lines = [f"| {' '.join(size)} | {' | '.join(heads)} |", "|---" * (len(places) + 1) + "|"]
    for name, cells in table.items():
        lines.append(f"| {name} | {' | '.join(cells.get(place, '') for place in places)} |")
    return lines
