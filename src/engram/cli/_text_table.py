"""Tables of thousands of lines in no time; rich would take seconds."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = (), width: int = 0) -> str:
    """Columns side by side, as wide as they need to be.

    Args:
        head: the names of the columns.
        rows: texts, one for each column.
        right: the columns whose texts end at the same place: numbers.
        width: of the terminal; the first column is shortened to it, down to 20 letters. Default: 0, any.
    """
    widths = [max(map(_wide, column)) for column in zip(head, *rows, strict=True)]
    too_much = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if width and too_much > 0:
        widths[0] = max(min(20, widths[0]), widths[0] - too_much)
    ends = [name in right for name in head]
    return "\n".join(
        GAP.join(_cell(text, wide, end) for text, wide, end in zip(row, widths, ends, strict=True)).rstrip()
        for row in (head, *rows)
    )


def _cell(text: str, wide: int, at_the_end: bool) -> str:
    length = _wide(text)
    if length > wide:
        return set_cell_size(text, wide - 1) + "…"
    blanks = " " * (wide - length)
    return blanks + text if at_the_end else text + blanks


def _wide(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
