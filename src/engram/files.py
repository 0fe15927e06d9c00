"""Files: written whole or not at all and never through a link, sealed, and read within limits.

A refusal is a :class:`FileError` that says what is wrong with "it"; the caller knows what the file was meant to be and
puts its name in front. What the system itself refuses (no such file, no permission, a full disk) stays an OSError.
"""

import gzip
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engram.errors import FileError

NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what may be a trap: not through a link, and without waiting for the other end of a pipe."""
KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
MOST_DIGITS = 1000
DEEPEST = 100
"""Digits of a whole number, and levels of lists and objects, that a JSON file may have."""


# Writing


def write_whole(path: Path, content: bytes) -> None:
    """Write beside, sync, rename: a reader finds the old content or the new, never a part; several may write at once.

    Refused where a link, folder, pipe or device (/dev/null) stands at ``path``.
    """
    try:
        check_plain(path)
    except FileError as error:
        raise FileError(f"{path} could not be written: {error}") from None
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    _write_new(new, content)
    _rename(new, path)


def prepare(path: Path, content: bytes) -> None:
    """The first half of a write where only one process writes: the content is on disk, under the name :func:`beside`.

    The name is always the same, so that what a kill has left there is replaced by the next write.
    """
    beside(path).unlink(missing_ok=True)
    _write_new(beside(path), content)


def publish(path: Path) -> None:
    """The second half: what was prepared takes its name."""
    _rename(beside(path), path)


def beside(path: Path) -> Path:
    """The name under which content is written before it gets its own: ``NAME.new``."""
    return path.with_name(path.name + ".new")


def sync_folder(folder: Path) -> None:
    """A rename is on disk once its folder is."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_to_append(path: Path) -> io.FileIO:
    """A plain file, made if it is missing, at its end; it can also be truncated. Not through a link of any kind."""
    file = io.FileIO(_open(path, os.O_RDWR | os.O_CREAT), "r+")
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise FileError("it has a second name (a hard link), so that another file would change too: copy its folder")
    file.seek(0, os.SEEK_END)
    return file


def _write_new(path: Path, content: bytes) -> None:
    """To the disk, under a name that nothing has: "x" refuses a link too."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:  # a full disk, a limit, Ctrl-C
            path.unlink(missing_ok=True)
            raise


def _rename(new: Path, path: Path) -> None:
    try:
        new.replace(path)
    except OSError:  # a folder stands there
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


# Sealing


def sha256(content: bytes) -> str:
    """The hash of a content, as 64 letters."""
    return hashlib.sha256(content).hexdigest()


def seal(values: Mapping[str, Any]) -> str:
    """The hash of values as JSON, whatever their order."""
    return sha256(json.dumps(values, sort_keys=True).encode())


def sealed(values: Mapping[str, Any]) -> bytes:
    """The content of a JSON file with its own :func:`seal` inside, so that a changed byte is found."""
    return json.dumps({**values, "seal": seal(values)}, indent=1).encode() + b"\n"


def unseal(values: Any) -> dict[str, Any]:
    """The values of :func:`sealed`, read by :func:`read_json`, without the seal; refused if it does not match."""
    if not isinstance(values, dict) or "seal" not in values:
        raise FileError("it has no seal")
    rest = {name: value for name, value in values.items() if name != "seal"}
    of_version_0_1 = sha256(json.dumps(rest, indent=1).encode())  # its checkpoints
    if values["seal"] not in (seal(rest), of_version_0_1):
        raise FileError("its content does not match its seal, so it was changed")
    return rest


# Reading what strangers sent


def check_plain(path: Path) -> None:
    """Refuse a link, folder, pipe, socket or device; a plain file is fine, and so is none."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(mode):
        raise FileError(f"it is {KINDS.get(stat.S_IFMT(mode), 'a device')}, and must be a plain file")


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a plain file of at most ``limit`` bytes."""
    with open(_open(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise FileError(f"it has {size:,} bytes, and at most {limit:,} are read")
        return file.read(size)


def gunzip(content: bytes, limit: int) -> bytes:
    """What gzip packed, if that is at most ``limit`` bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"it is not a whole gzip file ({error})") from None
    if len(unpacked) > limit:
        raise FileError(f"it unpacks to more than {limit:,} bytes")
    return unpacked


def read_json(path: Path, limit: int, *, finite: bool = True) -> Any:
    """:func:`parse_json` of a plain file of at most ``limit`` bytes."""
    return parse_json(read_bounded(path, limit), finite=finite)


def parse_json(content: bytes, *, finite: bool = True) -> Any:
    """JSON that means one thing only, in UTF-8: no name twice, no endless numbers or nesting.

    ``finite=False`` lets NaN and Infinity pass, which Python writes though JSON has them not.
    """
    if not content.strip():
        raise FileError("it is empty")
    hooks: dict[str, Any] = {"parse_float": _finite, "parse_constant": _finite} if finite else {}
    try:
        values = json.loads(content.decode(), object_pairs_hook=_once, parse_int=_whole, **hooks)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"it is not JSON ({error})") from None
    level = [values]
    for _ in range(DEEPEST):
        level = [child for each in level for child in _children(each)]
        if not level:
            return values
    raise FileError(f"its lists and objects are nested more than {DEEPEST} deep")


def printable(text: str) -> str:
    """Text for a log or a terminal: line breaks, escape sequences and other control characters become blanks.

    >>> printable("done\\n2026 all is well")
    'done 2026 all is well'
    """
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def one_line(text: str, most: int = 2000) -> str:
    """What another library said, for one line of ours.

    >>> one_line("expected:\\n    a matrix")
    'expected: a matrix'
    """
    return printable(" ".join(line.strip() for line in text.splitlines()))[:most]


def _open(path: Path, flags: int) -> int:
    """A plain file, looked at before it is opened (a device may act on that) and again after, for it may be another."""
    check_plain(path)
    handle = os.open(path, flags | NO_LINK, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError("it must be a plain file")
    return handle


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise FileError(f"it has {name!r:.60} twice in one object")
        values[name] = value
    return values


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise FileError(f"it has a number of {len(digits):,} digits, and at most {MOST_DIGITS:,} are read")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise FileError(f"it has the number {number:.20}, which is not finite")
    return value
