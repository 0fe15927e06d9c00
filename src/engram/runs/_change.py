"""Runs removed and renamed."""

import os
import secrets
import shutil
from pathlib import Path

from engram.errors import OptionError, RunError
from engram.files import printable
from engram.run_files import OF_SWEEP
from engram.runs._folder import alone_in

LONGEST = 200
"""Bytes of a name: file systems take 255, and archives add an ending."""


def remove_run(folder: Path | str) -> None:
    """Delete a run directory and all in it; links in it are deleted, what they lead to is not.

    Refused for what is not a run, holds another one, or is in use. It vanishes at once, under a hidden name, before
    its files are deleted: a kill in the middle leaves no half of a run.
    """
    folder = Path(folder)
    with alone_in(folder):
        gone = out_of_sight(folder)
    delete(gone, folder)


def out_of_sight(folder: Path) -> Path:
    """Give a folder that is to be deleted a hidden name, at once."""
    gone = folder.with_name(f".removed-{secrets.token_hex(8)}")
    folder.rename(gone)
    return gone


def delete(gone: Path, folder: Path) -> None:
    """Delete what was taken :func:`out_of_sight`."""
    try:
        shutil.rmtree(gone)
    except OSError as error:
        raise RunError(
            f"{printable(str(folder))} is no run any more, but not all of it could be deleted "
            f"({error.strerror}): see {printable(str(gone))}"
        ) from error


def rename_run(folder: Path | str, name: str) -> Path:
    """Give a run directory another name in the same folder. One of a sweep is refused: it is found by its name."""
    folder = Path(folder)
    check_name(name)
    with alone_in(folder):
        new = folder.with_name(name)
        if any(OF_SWEEP.fullmatch(entry.name) for entry in folder.iterdir()):
            raise RunError(f"{printable(str(folder))} is of a sweep, which finds it by its name: it keeps that name")
        try:
            new.mkdir()  # whoever makes it has the name
        except FileExistsError:
            raise RunError(f"{printable(str(new))} is there already: choose another name") from None
        try:
            if os.name == "nt":
                new.rmdir()
            folder.rename(new)
        except OSError:
            new.rmdir()
            raise
    return new


def check_name(name: str) -> str:
    """Return ``name`` if it can be that of a run: one folder, no path, and nothing that a terminal would act on."""
    said = printable(name)
    if not name or name != said or name.startswith((".", "-")) or {"/", "\\", ":", *'<>|"?*'} & {*name}:
        raise OptionError(f"a name is that of one folder, such as first or copy-64; got {said!r:.80}")
    if len(os.fsencode(name)) > LONGEST or name != name.strip():
        raise OptionError(f"a name has at most {LONGEST} bytes and no blanks around it, got {said!r:.80}")
    return name
