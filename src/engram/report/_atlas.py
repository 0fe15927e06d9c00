"""An atlas of ranks as a page."""

from typing import Any

SHOWN = 150
"""Rows of a list of failures on the page; the JSON file has all."""


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows by the names of their columns."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def atlas_summary(found: dict[str, Any]) -> str:
    """What was found, in a few lines."""
    told = found["conjecture"]
    lines = [
        f"{found['matrices']:,} matrices, modulo {found['prime']}, seed {found['seed']}.",
        f"Conjecture 1 is certified at {told['certified']:,} of {told['sizes']:,} sizes (M, R, T, L), "
        f"{told['certified_beyond_the_theorems']:,} of them deeper than the theorems go (L > 2)"
        + (
            f"; at {len(told['out_of_reach']):,} no grid within the limit could reach it"
            if told["out_of_reach"]
            else ""
        )
        + (f"; at {len(told['open']):,} it is open" if told["open"] else "")
        + ".",
    ]
    for name, count in found["claims"].items():
        lines.append(
            f"{name}: holds on {count['hold']:,} of {count['asked']:,} grids"
            + (f", fails on {count['fail']:,} (the upper bound is below it)" if count["fail"] else "")
            + (f", open on {count['open']:,}" if count["open"] else "")
        )
    lines += [f"{name}: {len(table['rows']):,} sizes" for name, table in found["fails"].items()]
    return "\n".join(lines)


def atlas_page(found: dict[str, Any]) -> str:
    """Markdown: the summary, where statements of the papers fail, and all ranks with as many templates as modes."""
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in found["range"].items())
    parts = [
        "# Atlas of ranks",
        "",
        f"`engram certify atlas {words}`",
        "",
        *(f"* {line}" for line in atlas_summary(found).split("\n")),
        "",
    ]
    parts += ["![Rank against length and depth](atlas.svg)", "", "## Where statements of the papers fail", ""]
    for name, table in found["fails"].items():
        rows, more = table["rows"][:SHOWN], len(table["rows"]) - SHOWN
        parts += [f"**{name}**: {len(table['rows']):,} sizes", "", *_table(table["columns"], rows), ""]
        parts += [f"... and {more:,} more in `atlas.json`.", ""] if more > 0 else []
    for name, words in (("out_of_reach", "No grid within the limit could reach Conjecture 1"), ("open", "Open")):
        sizes = ", ".join(f"({', '.join(map(str, size))})" for size in found["conjecture"][name])
        parts += [f"**{words}**, (M, R, T, L): {sizes}", ""] if sizes else []
    parts += ["## Circuits, K = M", "", "Rank found, and the lower bound (theorem for L <= 2, conjecture above).", ""]
    square = [row for row in rows_of(found["rac"]) if row["K"] == row["M"]]
    depths = sorted({row["L"] for row in square})
    cells: dict[tuple[int, int, int], dict[int, str]] = {}
    for row in sorted(square, key=lambda row: (row["M"], row["R"], row["T"])):
        bound = row["conjecture"] if row["theorem"] is None else row["theorem"]
        sign = ">=" if row["rank"] >= bound else "<"
        cells.setdefault((row["M"], row["R"], row["T"]), {})[row["L"]] = f"{row['rank']} {sign} {bound}"
    heads = ["M", "R", "T", *(f"L = {depth}" for depth in depths)]
    parts += _table(heads, [[*size, *(found.get(depth, "") for depth in depths)] for size, found in cells.items()])
    parts += ["", "## Tensor trains", "", "Rank found with equal and with different cores.", ""]
    trains: dict[tuple[int, int, int], dict[str, Any]] = {}
    for row in sorted(rows_of(found["tt"]), key=lambda row: (row["n"], row["r"], row["d"])):
        train = trains.setdefault((row["n"], row["r"], row["d"]), {"bound": row["bound"], "upper": row["upper"]})
        train["equal" if row["equal"] else "different"] = row["rank"]
        train |= {"printed": row["printed"]} if row["equal"] else {}
    names = {
        "printed": "bound in the paper",
        "bound": "correct bound",
        "equal": "equal cores",
        "different": "different cores",
        "upper": "upper bound",
    }
    parts += _table(
        ["n", "r", "d", *names.values()], [[*size, *(row.get(head) for head in names)] for size, row in trains.items()]
    )
    return "\n".join(parts) + "\n"


def _table(names: list[str], rows: list[list[Any]]) -> list[str]:
    lines = [["-" if value is None else str(value) for value in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in ([*names], ["---"] * len(names), *lines)]
