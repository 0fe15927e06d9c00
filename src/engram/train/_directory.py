"""The run directory: run.json, metrics.jsonl, stdout.log, and the checkpoint."""

import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engram import __version__
from engram.errors import EngramError, OptionError, RunError, StoppedError
from engram.files import beside, prepare, publish, read_json
from engram.imports import code_hash, is_outside
from engram.loops import status as loop_status
from engram.run_files import FILES, MOST_FACTS, read_metrics
from engram.tasks import Task, task_name
from engram.train._files import check_plain_in, locked, resume_command
from engram.train._settings import Settings


class RunDirectory:
    """One run on disk. ``RunDirectory(path)`` opens it; :meth:`create` makes it.

    A run whose model or task is code outside engram is opened only if ``allow`` has its package or its file.

    Args:
        folder: where the run is.
        allow: packages and files whose code it may use.
    """

    def __init__(self, folder: Path | str, allow: Sequence[str] = ()) -> None:
        self.folder, self.allow = Path(folder), (allow,) if isinstance(allow, str) else tuple(allow)
        check_own(self.folder)
        path = self.folder / "run.json"
        if not path.is_file():
            raise RunError(f"{self.folder} is not a run: it has no run.json. Runs are made by: engram train TASK")
        try:
            self.facts = _facts(read_json(path, MOST_FACTS, finite=False))
            self.settings = Settings.from_dict(_grouped(self.facts["settings"]), self.allow)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, EngramError):
                raise RunError(f"{path}: {error}") from None
            raise RunError(f"{path} cannot be read ({error}): start the run again") from None

    @classmethod
    def create(cls, folder: Path, settings: Settings, command: str = "") -> "RunDirectory":
        """A new directory; one that holds a run already is refused."""
        folder.mkdir(parents=True, exist_ok=True)
        check_own(folder)
        with locked(folder):
            return cls._create(folder, settings, command)

    @classmethod
    def _create(cls, folder: Path, settings: Settings, command: str) -> "RunDirectory":
        if (folder / "run.json").exists():
            raise RunError(
                f"{folder} holds a run already: resume it with {resume_command(folder)}, or choose another name"
            )
        settings = settings.resolved()
        facts = {
            "status": "new",
            "settings": settings.to_dict(),
            "seed": settings.seed,
            **_floor(settings.task),
            "versions": versions(settings),
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": command,
        }
        _write_facts(folder / "run.json", facts)
        names = [*settings.model.outside, task_name(settings.task)]
        return cls(folder, [name for name in names if is_outside(name)])  # the person's own word

    def note(self, **facts: Any) -> None:
        """Change entries of run.json."""
        self.facts |= facts
        _write_facts(self.folder / "run.json", self.facts)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. A last line that was cut off by a kill is left out."""
        path = self.folder / "metrics.jsonl"
        try:
            return read_metrics(path)
        except ValueError as error:
            raise RunError(f"{path} cannot be read ({error}): it was changed by another program") from None

    @property
    def status(self) -> str:
        """new, running (or killed while running), stopped (by Ctrl-C), failed, done."""
        return str(self.facts["status"])


def versions(settings: Settings) -> dict[str, str]:
    """What the numbers depend on besides the settings: in their last bits, or, of code outside engram, altogether."""
    named = {**settings.model.outside, task_name(settings.task): type(settings.task)}
    code = {f"code of {kind.__name__}": code_hash(kind) for name, kind in named.items() if is_outside(name)}
    return code | {
        "engram": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "loop": str(loop_status()),
    }


def check_own(folder: Path) -> None:
    """Refuse a folder where a link or a special file stands for a file of a run: it may lead out, or never end."""
    check_plain_in(folder, *FILES, *(beside(folder / name).name for name in FILES))
    events = folder / "tensorboard"
    if events.is_symlink() or (events.exists() and not events.is_dir()):
        raise RunError(f"{events} is not of a run: it must be a folder, and not a link to one")
    if events.is_dir():
        check_plain_in(events, *(entry.name for entry in events.iterdir()))


def _facts(facts: Any) -> dict[str, Any]:
    """The content of run.json, if it has what every run has."""
    if not isinstance(facts, dict):
        raise TypeError("it holds no object")
    for name, kind in (("settings", dict), ("status", str), ("versions", dict)):
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name} is {facts[name]!r:.60}")
    return facts


def _grouped(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by groups; before there were any, the model was a name."""
    if isinstance(settings.get("model"), str):
        raise OptionError("the run was made by engram 0.1, whose settings have no groups: start the run again")
    return settings


def _floor(task: Task) -> dict[str, Any]:
    """What is reached without memory, for lists of runs: they make no tasks."""
    try:
        return {"metric": task.metric, "chance": task.chance, "memoryless_baseline": task.memoryless_baseline}
    except EngramError:  # of a data set that is not here
        return {"metric": task.metric}


def _write_facts(path: Path, facts: dict[str, Any]) -> None:
    try:
        prepare(path, json.dumps(facts, indent=1).encode())
        publish(path)
    except OSError as error:  # a full disk, a limit, a folder that is gone
        raise StoppedError(
            f"{path} could not be written ({error.strerror}); what was there before is intact. "
            f"Make room, then: {resume_command(path.parent)}"
        ) from error
