"""A comparison of runs as a page."""

from html import escape
from pathlib import Path

from engram.errors import RunError
from engram.figures import svg_text
from engram.files import printable, write_whole
from engram.report._compare import compare_figure
from engram.report._probe import STYLE
from engram.runs import Comparison, compare_table


def compare_page(found: Comparison) -> str:
    """One self-contained HTML page: figure and tables, light or dark as the reader's system."""
    try:
        with compare_figure(found, None) as figure:
            whole = svg_text(figure)
        picture = whole[whole.index("<svg") :]
    except RunError as error:  # no metrics yet
        picture = f"<p class='none'>{escape(str(error))}</p>"
    head, rows = compare_table(found)
    each = [["", "run", "seed", "status", "score", "loss", "steps", "seconds"]]
    for group in found.groups:
        for run in group.runs:
            row = run.row
            numbers = [_number(value) for value in (row.score, row.loss, row.step, row.seconds)]
            each.append([str(group.number), printable(str(run.folder)), _number(row.seed), row.status, *numbers])
    title = f"{len(found.runs)} runs compared" if len(found.runs) > 1 else "A run"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n{picture}\n"
        f"<h2>Settings that differ, scores over seeds, cost</h2>\n{_table([head, *rows])}\n"
        f"<h2>Each run</h2>\n{_table(each)}\n</body></html>\n"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def _table(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rest]
    return f"<div style='overflow-x: auto'><table>{''.join(lines)}</table></div>"


def write_text(path: Path, text: str) -> None:
    """Write a text file whole; letters that UTF-8 lacks (of file names) by their numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode(errors="backslashreplace"))
