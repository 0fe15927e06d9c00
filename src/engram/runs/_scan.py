"""Where runs are: a folder of runs has them below it, or below folders within it, such as those of sweeps."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engram.run_files import RESULT


class Place(NamedTuple):
    """A run directory that was found."""

    out: Path
    """The folder that was searched."""
    name: str
    """Its path within that, with forward slashes."""
    stamp: str
    """What changes when its run.json does."""
    changed: int
    """When that was, in nanoseconds since 1970."""

    @property
    def folder(self) -> Path:
        return self.out / self.name


def find_runs(out: Path) -> Iterator[Place]:
    """The runs below ``out``, one or two levels down. Links and hidden folders are not entered.

    One look at each run.json and no more: a run that vanishes meanwhile is left out.
    """
    for name in _folders(out):
        if found := _place(out, name):
            yield found
            continue
        for below in _folders(out / name):
            if found := _place(out, f"{name}/{below}"):
                yield found


def later_stamp(folder: Path) -> str:
    """What changes when metrics.jsonl or a sweep's result.json does: run.json stays as it is while a run goes on."""
    return " ".join(_stamp(folder / name)[0] for name in ("metrics.jsonl", RESULT))


def _folders(out: Path) -> list[str]:
    names = []
    with suppress(OSError), os.scandir(out) as entries:
        for entry in entries:
            with suppress(OSError):
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    return names


def _place(out: Path, name: str) -> Place | None:
    stamp, changed = _stamp(f"{out}/{name}/run.json")
    return Place(out, name, stamp, changed) if stamp else None


def _stamp(path: Path | str) -> tuple[str, int]:
    """Time of change, of replacement, size and number of a file; a file that is replaced has another number."""
    try:
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - ten thousand times
    except OSError:
        return "", 0
    return f"{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_size}.{found.st_ino}", found.st_mtime_ns
