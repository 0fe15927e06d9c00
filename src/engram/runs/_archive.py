"""A run packed into one file, which takes the place of its folder."""

import hashlib
import io
import os
import secrets
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from engram.errors import FileError, RunError
from engram.files import NO_LINK, check_plain, printable, sync_folder
from engram.runs._change import delete, out_of_sight
from engram.runs._folder import alone_in, contents

ENDING = ".tar.gz"
PIECE = 2**20


def archive_run(folder: Path | str) -> Path:
    """Pack a run into ``NAME.tar.gz`` beside it, and remove the folder once the archive was read back and compared.

    ``tar xf NAME.tar.gz`` in the same folder brings it back. Refused where there is such a file already, and for a run
    with links in it.
    """
    folder = Path(folder)
    with alone_in(folder):
        path = folder.with_name(folder.name + ENDING)
        if os.path.lexists(path):
            raise RunError(f"{printable(str(path))} is there already: rename it, or the run")
        found = contents(folder)
        if found.links:
            raise RunError(
                f"{printable(str(folder / found.links[0]))} is a link or a special file, which is not packed"
            )
        names = [name for name in found.files if name != "lock"]
        new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
        try:
            _pack(folder, found.folders, names, new)
            _compare(folder, new)
            _appear(new, path)
        except OSError as error:
            raise RunError(
                f"{printable(str(path))} could not be written ({error.strerror}); the run is intact"
            ) from error
        finally:
            new.unlink(missing_ok=True)
        gone = out_of_sight(folder)
    delete(gone, folder)
    return path


def _pack(folder: Path, folders: Iterable[str], names: Iterable[str], new: Path) -> None:
    """Write the archive."""
    with new.open("xb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6) as archive:
            for name in ("", *folders):
                archive.add(folder / name, arcname="/".join(filter(None, (folder.name, name))), recursive=False)
            for name in names:
                with _opened(folder / name) as content:
                    about = archive.gettarinfo(arcname=f"{folder.name}/{name}", fileobj=content)
                    about.type, about.linkname = tarfile.REGTYPE, ""  # two names of one file are packed as two files
                    about.size = os.fstat(content.fileno()).st_size
                    archive.addfile(about, content)
        file.flush()
        os.fsync(file.fileno())


def _compare(folder: Path, new: Path) -> None:
    """The archive, read back, has the same files as the folder."""
    packed: dict[str, str] = {}
    try:
        with tarfile.open(new, mode="r:gz") as archive:
            for member in archive:
                if member.isfile() and (content := archive.extractfile(member)) is not None:
                    packed[member.name] = _hash(content)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise RunError(
            f"the archive of {printable(str(folder))} cannot be read back ({error}); the run is intact"
        ) from None
    there: dict[str, str] = {}
    for name in contents(folder).files:
        if name != "lock":
            with _opened(folder / name) as content:
                there[f"{folder.name}/{name}"] = _hash(content)
    if packed != there:
        raise RunError(f"{printable(str(folder))} changed while it was packed; nothing was removed: try again")


def _appear(new: Path, path: Path) -> None:
    """Give the archive its name, if nothing else has taken it."""
    try:
        os.link(new, path, follow_symlinks=False)
    except (OSError, NotImplementedError) as error:
        if os.path.lexists(path):
            raise RunError(f"{printable(str(path))} is there already: rename it, or the run") from error
        new.rename(path)  # a file system without hard links
    sync_folder(path.parent)


def _opened(path: Path) -> io.BufferedReader:
    try:
        check_plain(path)
    except FileError as error:
        raise RunError(f"{printable(str(path))}: {error}") from None
    return open(os.open(path, os.O_RDONLY | NO_LINK), "rb")  # noqa: PTH123 - not through a link


def _hash(file: IO[bytes]) -> str:
    total = hashlib.sha256()
    while piece := file.read(PIECE):
        total.update(piece)
    return total.hexdigest()
