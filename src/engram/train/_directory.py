"""The run directory: run.json, metrics.jsonl, stdout.log, and the checkpoint."""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from engram import __version__
from engram.errors import EngramError, RunError, StoppedError
from engram.kernels import status as kernel_status
from engram.train._files import go_on, locked, write_whole
from engram.train._settings import Settings


class RunDirectory:
    """One run on disk. ``RunDirectory(path)`` opens it; :meth:`create` makes it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not (self.folder / "run.json").is_file():
            raise RunError(f"{self.folder} is not a run: it has no run.json. Runs are made by: engram train TASK")
        try:
            self.facts: dict[str, Any] = json.loads((self.folder / "run.json").read_bytes())
            self.settings = Settings.from_dict(self.facts["settings"])
            self.facts["status"], self.facts["versions"]  # must be there
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, EngramError):
                raise RunError(f"{self.folder / 'run.json'}: {error}") from None
            raise RunError(f"{self.folder / 'run.json'} cannot be read ({error}): start the run again") from None

    @classmethod
    def create(cls, folder: Path, settings: Settings, command: str = "") -> "RunDirectory":
        """A new directory; one that holds a run already is refused."""
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            return cls._create(folder, settings, command)

    @classmethod
    def _create(cls, folder: Path, settings: Settings, command: str) -> "RunDirectory":
        if (folder / "run.json").exists():
            raise RunError(f"{folder} holds a run already: {go_on(folder)} goes on with it; another name starts anew")
        facts = {
            "status": "new",
            "settings": settings.to_dict(),
            "seed": settings.seed,
            "versions": versions(),
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": command,
        }
        write_whole(folder / "run.json", json.dumps(facts, indent=1).encode())
        return cls(folder)

    def note(self, **facts: Any) -> None:
        """Change entries of run.json."""
        self.facts |= facts
        write_whole(self.folder / "run.json", json.dumps(self.facts, indent=1).encode())

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. A last line that was cut off by a kill is left out."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise RunError(f"{path} cannot be read ({error}): it was changed by another program") from None

    @property
    def status(self) -> str:
        """new, running (or killed while running), stopped (by Ctrl-C), failed, done."""
        return str(self.facts["status"])


class AppendedFile:
    """A file that grows by lines and can be cut back to where a checkpoint found it."""

    def __init__(self, path: Path, length: int | None = None) -> None:
        self.path = path
        path.touch()
        self.file = path.open("r+b", buffering=0)
        self.file.seek(0, os.SEEK_END)
        if length is not None:
            if length > self.file.tell():
                self.close()
                raise RunError(f"{path} is shorter than its checkpoint says: lines were taken away. Start again")
            self.file.truncate(length)
            self.file.seek(length)

    def write(self, line: str) -> None:
        content = line.encode() + b"\n"
        try:
            if self.file.write(content) != len(content):
                raise OSError(0, "the disk is full")
        except OSError as error:
            raise StoppedError(
                f"{self.path} could not be written ({error.strerror}); the last checkpoint is intact. "
                f"Make room, then: {go_on(self.path.parent)}"
            ) from error

    @property
    def length(self) -> int:
        return self.file.tell()

    def sync(self) -> None:
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


def versions() -> dict[str, str]:
    """What the numbers may depend on in their last bits."""
    return {
        "engram": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "kernel": str(kernel_status()),
    }
