"""A list of runs as a table."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engram.cli._duration import duration
from engram.cli._text_table import table
from engram.files import printable
from engram.runs import Row

HEAD = ("run", "task", "model", "size", "seed", "status", "score", "parameters", "time", "age")
RIGHT = ("size", "seed", "parameters", "time", "age")


def runs_table(out: Path, rows: Sequence[Row]) -> str:
    """One line per run; on a terminal long names are shortened to its width."""
    now, before = time.time(), "" if out == Path() else f"{out}/"
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    lines = [
        (
            printable(f"{before}{row.name}"),
            row.task,
            row.model.rpartition(":")[2],
            size(row),
            "" if row.seed is None else str(row.seed),
            row.status if row.status != "damaged" else f"damaged: {row.reason}",
            score(row),
            "" if row.parameters is None else f"{row.parameters:,}",
            "" if row.seconds is None else duration(row.seconds),
            "" if row.created is None else duration(max(0.0, now - row.created)),
        )
        for row in rows
    ]
    return table(HEAD, lines, RIGHT, width)


def size(row: Row) -> str:
    """Hidden units, by layers where there are several."""
    if row.hidden is None:
        return ""
    return f"{row.hidden}x{row.layers}" if row.layers not in (None, 1) else str(row.hidden)


def score(row: Row) -> str:
    """``accuracy 0.997 (chance 0.125)``; the loss where the task has no other metric, or it was not measured."""
    on = "" if row.scored_on in ("test", "") else f" {row.scored_on}"
    if row.score is not None and row.metric != "loss":
        beside = "" if row.chance is None else f" (chance {row.chance:.3g})"
        return f"{row.metric} {row.score:.4g}{on}{beside}"
    if row.loss is None:
        return ""
    beside = "" if row.memoryless_baseline is None else f" (without memory {row.memoryless_baseline:.3g})"
    return f"loss {row.loss:.4g}{on}{beside}"
