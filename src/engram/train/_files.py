"""Files that appear whole or not at all."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from filelock import FileLock, Timeout

from engram.errors import RunError, StoppedError


def write_whole(path: Path, content: bytes) -> None:
    """Write beside, fsync, rename: whoever reads ``path`` finds the old content or the new, never a part."""
    prepare(path, content)
    publish(path)


def prepare(path: Path, content: bytes) -> None:
    """The first half of :func:`write_whole`: the content is safe on disk, under another name."""
    new = beside(path)
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk, a limit, a folder that is gone
        new.unlink(missing_ok=True)
        raise StoppedError(
            f"{path} could not be written ({error.strerror}); what was there before is intact. "
            f"Make room, then: {go_on(path.parent)}"
        ) from error


def publish(path: Path) -> None:
    """The second half: the content takes its name."""
    beside(path).replace(path)
    sync_folder(path.parent)


def beside(path: Path) -> Path:
    """Where content waits for its name."""
    return path.with_name(path.name + ".new")


def go_on(folder: Path) -> str:
    """What to type."""
    return f"engram resume {quote(str(folder))}"


def sync_folder(folder: Path) -> None:
    """A rename is on disk once its folder is."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sealed(values: Mapping[str, Any]) -> bytes:
    """JSON with the hash of its content inside, so that a changed byte is found."""
    body = json.dumps(values, indent=1)
    return json.dumps({**values, "seal": sha256(body.encode())}, indent=1).encode()


def unseal(content: bytes) -> dict[str, Any]:
    """The values of :func:`sealed`, or a ValueError."""
    values = json.loads(content)
    if not isinstance(values, dict) or "seal" not in values:
        raise ValueError("it has no seal")
    seal = values.pop("seal")
    if seal != sha256(json.dumps(values, indent=1).encode()):
        raise ValueError("its content does not match its seal")
    return values


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process works in a run directory. The system drops the lock of one that dies."""
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise RunError(f"{folder} is in use by another process: wait for it, or stop it first") from None
    try:
        yield
    finally:
        lock.release()
