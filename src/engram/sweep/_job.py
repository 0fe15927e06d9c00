"""One job of a sweep, in this process: a run, or several that train as one, to the end."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engram.errors import BusyError, DivergedError, EngramError, FileError, RunError, check_number, check_size
from engram.files import check_plain, read_json, sealed, unseal, write_whole
from engram.probe import watch
from engram.sweep._lease import Lease
from engram.sweep._plan import Planned
from engram.train import RUN_FILES, RunDirectory, Settings, resume, train

RESULT, MOST_BYTES = "result.json", 2**24
Result = dict[str, Any]
Tell = Callable[[int, int, float], None]
"""``tell(number of the run in the job, step, loss)``: called after each step."""


class Held(Exception):
    """Another process has the lease of the run."""


def job_of(runs: Sequence[Planned], out: Path, allow: Sequence[str] = ()) -> dict[str, Any]:
    """A job as plain JSON, for any engine."""
    found = [
        {"folder": str(out / run.folder), "identity": run.identity, "settings": run.settings.to_dict()} for run in runs
    ]
    return {"runs": found, "allow": list(allow)}


def work(job: Mapping[str, Any], stale: int = 0, tell: Tell | None = None) -> list[Result]:
    """Train the runs of a job to their end, from where they are; what is done is not done again.

    Args:
        job: of :func:`job_of`.
        stale: the number of a lease whose owner is dead.
        tell: is told of the progress.

    Raises:
        Held: if another process works on it.
        EngramError, OSError: if a run failed; started again, it goes on.
    """
    folders = [Path(run["folder"]) for run in job["runs"]]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    home = folders[0]  # of several, the first has the lease of all
    lease = Lease.take(home, stale)
    if lease is None:
        raise Held(f"{home} is being worked on by another process")
    try:
        for run in job["runs"]:
            if result_of(Path(run["folder"]), run["identity"]) is None:
                _finish(run, tuple(job.get("allow", ())), tell)
        found = [result_of(Path(run["folder"]), run["identity"]) for run in job["runs"]]
        return [result for result in found if result is not None]
    finally:
        lease.release()


def result_of(folder: Path, identity: str) -> Result | None:
    """The result in a folder; None if there is none, or one that is damaged or of another run."""
    try:
        found = unseal(read_json(folder / RESULT, MOST_BYTES, finite=False))
        check_size("parameters", found.get("parameters"), least=0)
        for scores in found["results"].values():
            for name, value in scores.items():
                check_number(name, value)
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if found.get("identity") == identity and found.get("status") in ("done", "diverged") else None


def _finish(job: Mapping[str, Any], allow: tuple[str, ...], tell: Tell | None) -> None:
    """Train one run to its end and write its result."""
    folder = Path(job["folder"])
    settings = Settings.from_dict(job["settings"], allow)
    step = None if tell is None else lambda step, loss: tell(0, step, loss)
    try:
        run = _trained(folder, settings, allow, step)
        result = {"status": "done", "results": run.facts["results"], "best": run.facts.get("best")}
    except DivergedError as error:
        run = RunDirectory(folder, allow)
        result = {"status": "diverged", "reason": str(error).partition(". ")[0], "results": {}, "best": None}
    result |= {"parameters": run.facts["parameters"], "identity": job["identity"]}
    write_whole(folder / RESULT, sealed(result))


def _trained(folder: Path, settings: Settings, allow: tuple[str, ...], tell: Any) -> RunDirectory:
    """A run that is done: as it is, resumed, or started; one that cannot be resumed is started again."""
    observe = watch if settings.machine.probe_every else None
    try:
        if (folder / "run.json").exists():
            run = RunDirectory(folder, allow)
            if run.settings.resolved() != settings.resolved():
                raise RunError(f"{folder} has other settings")
            return run if run.status == "done" else resume(folder, observe=observe, allow=allow, tell=tell)
    except BusyError:
        raise
    except RunError:
        clear(folder)  # damaged: a file was taken away or changed
    return train(settings, folder.parent, folder.name, observe=observe, tell=tell)


def clear(folder: Path) -> None:
    """Take away the files of a run, and nothing else; the lease stays."""
    for name in (*RUN_FILES, RESULT):
        if name != "lock":
            with suppress(FileError, EngramError):
                check_plain(folder / name)
                (folder / name).unlink(missing_ok=True)
