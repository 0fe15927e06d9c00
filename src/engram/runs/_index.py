"""Rows of runs that were read before, in an SQLite file that may be deleted, damaged or lost at any time.

SQLite never opens the file: it is read whole, as any file of a stranger is, into a database in memory, and is written
whole or not at all. So there are no locks and no second files beside it, two processes cannot harm each other (the last
one to write wins), and it works on shared file systems, where SQLite's own locks do not. What does not match its seal
or has another layout is thrown away.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from engram.errors import FileError
from engram.files import read_bounded, write_whole
from engram.places import cache_folder
from engram.runs._row import Row, read_row, with_actual_status
from engram.runs._scan import Place, find_runs, later_stamp

NAME = ".index.sqlite"
MOST = 2**29
"""Bytes of an index that are read at most: some 2,000 per run."""
LAYOUT = (
    "CREATE TABLE runs (name BLOB PRIMARY KEY, stamp TEXT, later TEXT, row TEXT, settings TEXT, scores TEXT)",
    "CREATE TABLE seal (version INTEGER NOT NULL, sha256 TEXT NOT NULL)",
)
HEAD = b"SQLite format 3\0"
VERSION = 1
"""Of the content of a row: an index of another version is made again."""
WORTH = 50
"""The index is written again when more than one row in this many has changed: to read a few again takes less time."""


class Entry(NamedTuple):
    """What the index has of a run: the stamps of the files it was read from, and the row in three JSON texts."""

    stamp: str
    """Of run.json."""
    later: str
    """Of the files that change while a run goes on (:func:`later_stamp`); empty for a run that is done."""
    row: str
    """All of the row but these two."""
    settings: str
    """Its settings."""
    scores: str
    """Its scores."""


class LazyObject(Mapping[str, Any]):
    """A JSON object that is parsed at the first look into it: most lists need no settings."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _object(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):  # an index that somebody made by hand
            return {}
        return found if isinstance(found, dict) else {}

    def __getitem__(self, name: str) -> Any:
        return self._object[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._object)

    def __len__(self) -> int:
        return len(self._object)


def list_runs(out: Path | str) -> list[Row]:
    """The runs below ``out``, one or two levels down, newest first; only what has changed is read again.

    A folder that is not there has no runs. Nothing that a run directory names is imported, and links are not followed.
    """
    out = Path(out)
    stored, entries, rows, changed = read_index(out), dict[bytes, Entry](), list[Row](), 0
    for place in find_runs(out):
        key = os.fsencode(place.name)
        entry, row = _fresh(place, stored.get(key))
        if row is None:
            entry, row = _read(place)
            changed += 1
        entries[key] = entry
        rows.append(with_actual_status(row, place.folder) if row.status == "running" else row)
    if changed * WORTH > len(rows) or len(stored) > 2 * len(rows):
        write_index(out, entries)
    return sorted(rows, key=lambda row: (-(row.created or 0.0), row.name))


def _fresh(place: Place, entry: Entry | None) -> tuple[Entry, Row | None]:
    """The row out of the index, if nothing has changed since; only runs that may go on are looked at more closely."""
    nothing = Entry(*5 * [""])
    if entry is None or entry.stamp != place.stamp or (entry.later and entry.later != later_stamp(place.folder)):
        return nothing, None
    row = _row_of(place.name, entry)
    return (entry, row) if row is not None else (nothing, None)


def _read(place: Place) -> tuple[Entry, Row]:
    later = later_stamp(place.folder)  # before it is read: what changes meanwhile is found the next time
    row = read_row(place.folder, place.name)
    texts = map(json.dumps, ({name: getattr(row, name) for name in TYPES}, row.settings, row.scores))
    return Entry(place.stamp, "" if row.status == "done" else later, *texts), row


def _types(hint: Any) -> tuple[type, ...]:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)
    return (*kinds, int) if float in kinds else kinds


TYPES = {name: _types(hint) for name, hint in get_type_hints(Row).items() if name not in ("name", "settings", "scores")}


def _row_of(name: str, entry: Entry) -> Row | None:
    """A row out of the index, if it has the form of one."""
    try:
        values = json.loads(entry.row)
        if values.keys() != TYPES.keys() or not all(isinstance(values[key], TYPES[key]) for key in values):
            return None
        return Row(name, **values, settings=LazyObject(entry.settings), scores=LazyObject(entry.scores))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def read_index(out: Path) -> dict[bytes, Entry]:
    """What the index knows; nothing if there is none, or one that cannot be trusted to be whole."""
    for path in index_files(out):
        with suppress(OSError, FileError, sqlite3.Error, ValueError, TypeError, AttributeError):
            return _unpacked(read_bounded(path, MOST))
    return {}


def write_index(out: Path, entries: Mapping[bytes, Entry]) -> Path | None:
    """Write it beside the runs, or where that is not allowed to the cache folder; returns where, None for nowhere."""
    try:
        content = _packed(entries)
    except (sqlite3.Error, AttributeError):  # an SQLite that was built without serialize
        return None
    for path in index_files(out):
        with suppress(OSError, FileError):
            if path.parent != out:
                path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
            return path
    return None


def index_files(out: Path) -> tuple[Path, Path]:
    """Where the index of a folder may be."""
    code = hashlib.sha256(os.fsencode(out.absolute())).hexdigest()[:32]
    return out / NAME, cache_folder() / "runs" / f"{code}.sqlite"


def _packed(entries: Mapping[bytes, Entry]) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in LAYOUT:
            database.execute(statement)
        rows = sorted((name, *entry) for name, entry in entries.items())
        database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO seal VALUES (?, ?)", (VERSION, _seal(rows)))
        database.commit()
        return database.serialize()


def _unpacked(content: bytes) -> dict[bytes, Entry]:
    """Raises what sqlite3 raises, or FileError, where the content is not an index as we write it."""
    if not content.startswith(HEAD):  # an empty content makes sqlite3 raise MemoryError
        raise FileError("it is not an SQLite file")
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        found = database.execute("SELECT type, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name LIMIT 3")
        if found.fetchall() != [("table", statement) for statement in LAYOUT]:
            raise FileError("it has another layout")
        rows = database.execute("SELECT * FROM runs ORDER BY name").fetchall()
        if database.execute("SELECT version, sha256 FROM seal LIMIT 2").fetchall() != [(VERSION, _seal(rows))]:
            raise FileError("its content does not match its seal")
    return {name: Entry(*rest) for name, *rest in rows}


def _seal(rows: Iterable[tuple[Any, ...]]) -> str:
    """The hash of all rows; raises TypeError or AttributeError where a row is not bytes and texts."""
    total = hashlib.sha256()
    for name, *texts in rows:
        total.update(b"%d %s" % (len(name), name))
        for text in texts:
            content = text.encode()
            total.update(b"%d %s" % (len(content), content))
    return total.hexdigest()
