"""Data files: found on this machine or fetched once, and always checked byte for byte."""

import gzip
import io
import os
import tarfile
import zlib
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from engram.errors import DataError, FileError, unknown
from engram.files import gunzip, read_bounded, sha256, write_whole
from engram.places import cache_folder
from engram.tasks._data_files import FILES, SOURCES
from engram.tasks._download import LARGEST, download

UNPACKED = 2**29
"""Bytes of a ``.tgz``, unpacked, that are looked through at most."""
BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError, FileError)
"""What the standard library raises for an archive that is cut short, or for a file that is no archive."""


def read(name: str) -> bytes:
    """The content of a data file, uncompressed: ``read("mnist/train-labels-idx1-ubyte")``.

    Looked for in :func:`places`, plain or as ``.gz``. If it is nowhere, it is fetched from its source into the cache,
    except with ``ENGRAM_OFFLINE=1``. Any content but the one in the table FILES is refused.
    """
    size, _ = _expected(name)
    path = find(name)
    if path is None:
        return _fetched(name)
    mend = f"Delete it, and get {name} again from {_url(name)}"
    try:
        content = read_bounded(path.resolve(), LARGEST)  # a link is fine: the content is what is checked
        content = gunzip(content, size) if path.suffix == ".gz" else content
    except BROKEN as error:
        raise DataError(f"{path} cannot be read ({error}). {mend}") from error
    return _checked(name, content, str(path), mend)


def find(name: str) -> Path | None:
    """The first file of this name in :func:`places`; it is not opened."""
    paths = (folder / file for folder in places() for file in (name, f"{name}.gz"))
    return next((path for path in paths if os.path.isfile(path)), None)  # noqa: PTH113 -- False for a closed folder


def places() -> list[Path]:
    """The folders in which data files are looked for: the one that $ENGRAM_DATA names, then the user's cache."""
    named = [Path(folder)] if (folder := os.environ.get("ENGRAM_DATA")) else []
    return list(dict.fromkeys([*named, cache_folder() / "data"]))


def _expected(name: str) -> tuple[int, str]:
    folder, _, file = name.partition("/")
    if file not in FILES.get(folder, {}):
        raise unknown("data file", name, (f"{folder}/{file}" for folder in FILES for file in FILES[folder]))
    return FILES[folder][file]


def _url(name: str) -> str:
    folder, _, file = name.partition("/")
    return SOURCES[folder].format(name=file)


def _checked(name: str, content: bytes, origin: str, mend: str) -> bytes:
    size, expected = _expected(name)
    found = sha256(content)
    if len(content) != size or found != expected:
        many = f"{len(content):,}{' or more' if len(content) > size else ''}"  # a tar is read one byte too far
        raise DataError(
            f"{origin} is not {name}: expected {size:,} bytes with sha256 {expected}, "
            f"found {many} with sha256 {found}. {mend}"
        )
    return content


def _fetched(name: str) -> bytes:
    url, home = _url(name), cache_folder() / "data"
    put = (
        f"Get {name} (or {name}.gz) from {url}, put it into a folder, and set the environment variable ENGRAM_DATA to "
        f"that folder; or put it into {home}"
    )
    if os.environ.get("ENGRAM_OFFLINE", "0") not in ("", "0"):
        raise DataError(f"{name} is not on this machine, and ENGRAM_OFFLINE is set. {put}")
    try:
        archive = download(url)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it keeps the connection open
        raise DataError(f"{name} is not on this machine, and {url} gives no answer ({error}). {put}") from error
    try:
        contents = _unpacked(name, url, archive)
    except BROKEN as error:
        raise DataError(f"{url} gave no readable archive ({error}). {put}") from error
    for each, content in contents.items():
        _checked(each, content, url, put)
    for each, content in contents.items():
        with suppress(OSError):  # a cache that cannot be written costs another download, no more
            (home / each).parent.mkdir(parents=True, exist_ok=True)
            write_whole(home / each, content)
    return contents[name]


def _unpacked(name: str, url: str, archive: bytes) -> dict[str, bytes]:
    """What came, by name: of a ``.tgz`` all the files we know, so that it is fetched once."""
    if url.endswith(".gz"):
        return {name: gunzip(archive, _expected(name)[0])}
    if not url.endswith(".tgz"):
        return {name: archive}
    folder, found = name.partition("/")[0], {}
    with tarfile.open(fileobj=_Unpacking(archive), mode="r|") as tar:
        for member in tar:
            file = member.name.rpartition("/")[2]
            if member.isfile() and file in FILES[folder] and f"/{member.name}".endswith(f"/data/{file}"):
                stream = tar.extractfile(member)
                found[f"{folder}/{file}"] = stream.read(FILES[folder][file][0] + 1) if stream else b""
    if name not in found:
        raise tarfile.TarError(f"it holds no data/{name.partition('/')[2]}")
    return found


class _Unpacking(gzip.GzipFile):
    """What gzip packed, as a stream that ends in an error after UNPACKED bytes."""

    def __init__(self, archive: bytes) -> None:
        super().__init__(fileobj=io.BytesIO(archive), mode="rb")
        self.unread = UNPACKED

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        self.unread -= len(part)
        if self.unread < 0:
            raise FileError(f"it unpacks to more than {UNPACKED:,} bytes")
        return part
