"""Which rows of a list, and in which order."""

from collections.abc import Iterable, Sequence
from typing import Any

from engram.errors import unknown
from engram.runs._row import HEADS, OWN, Row
from engram.runs._where import Where


def select(rows: Sequence[Row], where: str = "", sort: str = "", also: Iterable[str] = ()) -> list[Row]:
    """The rows for which a condition holds, in the order of a name (``-name``: the largest first).

    Args:
        rows: all of them; equal ones keep their order, and all do without ``sort``.
        where: a condition such as ``task=copy and hidden>64``; default: all rows.
        sort: a name, such as ``score`` or ``-created``. Rows without it come last.
        also: names that may be used though no row has them. Any other is refused, with the nearest name.
    """
    found, also = list(rows), {*also}
    if where:
        test, names = Where(where), Where(where).names
        if _strange(names, rows, also):
            Where(where, tuple(names_of(rows, also)))  # says which
        found = [row for row in found if test({name: row.get(name) for name in names})]
    name = sort.removeprefix("-").replace("-", "_")
    if name and _strange([name], rows, also):
        raise unknown("name to sort by", name, names_of(rows, also))
    if name:
        keys = {id(row): _key(row.get(name)) for row in found}
        there = [row for row in found if keys[id(row)] is not None]
        missing = [row for row in found if keys[id(row)] is None]
        found = sorted(there, key=lambda row: keys[id(row)] or (0, 0), reverse=sort.startswith("-")) + missing
    return found


def _strange(names: Iterable[str], rows: Sequence[Row], also: set[str]) -> bool:
    """Whether no row has one of these names; without rows no name is known, and none is wrong."""
    new = {*names}.difference(OWN, HEADS, also)
    return bool(rows) and not all(any(name in row.settings or name in row.scores for row in rows) for name in new)


def names_of(rows: Iterable[Row], also: Iterable[str] = ()) -> list[str]:
    """All names that these rows know, and some more."""
    names = {*OWN, *HEADS, *also}
    for row in rows:
        names.update(row.settings, row.scores)
    return sorted(names)


def _key(value: Any) -> tuple[int, Any] | None:
    """Numbers before texts, for they cannot be compared."""
    if value is None or value == "":
        return None
    return (0, value) if isinstance(value, int | float) else (1, str(value))
