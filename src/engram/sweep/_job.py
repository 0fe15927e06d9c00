"""One job of a sweep, in this process: a run, or several that train as one, to the end."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from engram.errors import (
    BusyError,
    DivergedError,
    DTypeError,
    EngramError,
    FileError,
    OptionError,
    RunError,
    ShapeError,
    StoppedError,
    check_number,
    check_size,
)
from engram.files import check_plain, read_json, sealed, unseal, write_whole
from engram.imports import absolute_names
from engram.probe import watch
from engram.run_files import RESULT, RUNGS
from engram.sweep._lease import Lease
from engram.sweep._plan import Planned, identity
from engram.sweep._rung import rung_name, standing, validations
from engram.train import RUN_FILES, Asked, RunDirectory, Settings, resume, train, train_together

MOST_BYTES = 2**24
Result = dict[str, Any]
Tell = Callable[[int, int, float], None]
"""``tell(number of the run in the job, step, loss)``: called after each step."""


class Held(Exception):
    """Another process has the lease of the run."""


class Paused(Asked):
    """A run has come to the step that it was to come to."""


def job_of(runs: Sequence[Planned], out: Path, allow: Sequence[str] = ()) -> dict[str, Any]:
    """A job as plain JSON, for any engine. Paths are absolute: a model may change the folder of its process."""
    found = [
        {
            "folder": str(out.absolute() / run.folder),
            "identity": run.identity,
            "settings": run.settings.to_dict(),
            "until": run.until,
        }
        for run in runs
    ]
    return {"runs": found, "allow": list(absolute_names(allow)), "together": bool(runs[0].kind)}


def work(job: Mapping[str, Any], stale: Sequence[int] = (), tell: Tell | None = None) -> list[Result]:
    """Train the runs of a job to their end, from where they are; what is done is not done again.

    Args:
        job: of :func:`job_of`.
        stale: for each run, the number of a lease whose owner is dead, or 0.
        tell: called after each step, see :data:`Tell`.

    Raises:
        Held: if another process works on it.
        EngramError, OSError: if a run failed; started again, it goes on.
    """
    runs = [
        _Run(Path(each["folder"]), each["identity"], each["settings"], each.get("until", 0)) for each in job["runs"]
    ]
    leases = _leases([run.folder for run in runs], stale)
    try:
        left = [run for run in runs if run.result() is None]
        allow = tuple(job.get("allow", ()))
        for run in left:
            if run.until:
                _reach(run, allow, tell)
        if ends := [run for run in left if not run.until]:
            _finish(ends, bool(job.get("together")), allow, tell)
        found = {run.folder: run.result() for run in runs}
        for folder, result in found.items():
            if result is None:
                raise RunError(f"the result of {folder} was taken away or changed by another program")
        return [result for result in found.values() if result is not None]
    finally:
        for lease in leases:
            lease.release()


class _Run(NamedTuple):
    """A run of a job, out of its JSON (:func:`job_of`)."""

    folder: Path
    identity: str
    settings: dict[str, Any]
    until: int = 0

    def result(self) -> Result | None:
        return result_of(self.folder, self.identity, self.until)


def _leases(folders: list[Path], stale: Sequence[int]) -> list[Lease]:
    """A lease of every folder, or of none."""
    taken: list[Lease] = []
    for folder, dead in zip(folders, stale or [0] * len(folders), strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        lease = Lease.take(folder, dead)
        if lease is None:
            for each in taken:
                each.release()
            raise Held(f"{folder} is being worked on by another process")
        taken.append(lease)
    return taken


def answer(job: Mapping[str, Any], stale: Sequence[int] = (), tell: Tell | None = None) -> dict[str, Any]:
    """What an engine says of a job that has ended: results; held, if another process works on it; or failed, with the
    reason, and final if it would fail again."""
    try:
        return {"results": work(job, stale, tell)}
    except Held:
        return {"held": True}
    except (Exception, SystemExit) as error:  # a model of somebody may raise anything
        if not isinstance(error, EngramError | OSError):
            traceback.print_exc()  # where in their code: to the log
        final = isinstance(error, OptionError | DTypeError | ShapeError)
        return {"failed": f"{type(error).__name__}: {error}", "final": final}


def result_of(folder: Path, identity: str, until: int = 0) -> Result | None:
    """The result in a folder, or how the run stood at the step ``until``; None if there is none, or one that is damaged
    or of another run."""
    try:
        path = folder / (rung_name(until) if until else RESULT)
        found = unseal(read_json(path, MOST_BYTES, finite=False))
        check_size("parameters", found.get("parameters"), least=0)
        for scores in found["results"].values():
            for name, value in scores.items():
                check_number(name, value)
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return None
    expected = ("reached" if until else "done", "diverged")
    return found if found.get("identity") == identity and found.get("status") in expected else None


def _reach(run: _Run, allow: tuple[str, ...], tell: Tell | None) -> None:
    """Train a run until the validation of a step is done, unless it has come that far, and write how it stands there.
    Trained further, it comes to the same bits as if it had not stopped."""

    def is_there() -> bool:
        return result_of(run.folder, run.identity) is not None or any(
            line["step"] == run.until for line in validations(run.folder, run.until, allow)
        )

    if not is_there():
        with suppress(Paused):
            _finish([run], False, allow, tell)
    found = standing(RunDirectory(run.folder, allow), validations(run.folder, run.until, allow), run.until)
    write_whole(run.folder / rung_name(run.until), sealed({**found, "identity": run.identity}))


def _finish(runs: list[_Run], together: bool, allow: tuple[str, ...], tell: Tell | None) -> None:
    """Train runs to their end and write their results. What cannot be resumed is started again."""
    train_all = _train_together if together else _train_each
    try:
        found = train_all(runs, allow, tell)
    except BusyError:
        raise
    except RunError:  # damaged: a file was taken away or changed
        for run in runs:
            clear(run.folder)
        found = train_all(runs, allow, tell)
    for run, done in zip(runs, found, strict=True):
        write_whole(run.folder / RESULT, sealed({**_outcome(done), "identity": run.identity}))


def _outcome(run: RunDirectory) -> Result:
    """What result.json says of a run that is done or has diverged; one that stopped for another reason has none."""
    facts = run.facts
    if run.status == "done":
        result: Result = {"status": "done", "results": facts["results"], "best": facts.get("best")}
    elif not facts.get("diverged"):
        raise StoppedError(str(facts.get("reason")))
    else:
        result = {"status": "diverged", "results": {}, "reason": str(facts["reason"]).partition(". ")[0]}
    return {**result, "parameters": facts["parameters"]}


def _train_together(runs: list[_Run], allow: tuple[str, ...], tell: Tell | None) -> list[RunDirectory]:
    settings = [Settings.from_dict(run.settings, allow) for run in runs]
    return train_together(settings, [run.folder for run in runs], tell=tell, observe=watch)


def _train_each(runs: list[_Run], allow: tuple[str, ...], tell: Tell | None) -> list[RunDirectory]:
    return [_train(run, number, allow, tell) for number, run in enumerate(runs)]


def _train(run: _Run, number: int, allow: tuple[str, ...], tell: Tell | None) -> RunDirectory:
    """A run that has ended: as it is, resumed, or started.

    One that was started with another ``log_every``, say, which changes no score, is the same run and keeps its own.
    """
    folder, settings = run.folder, Settings.from_dict(run.settings, allow)
    more: dict[str, Any] = {"observe": watch}  # every probe_every steps, if the run has that

    def told(step: int, loss: float) -> None:
        if tell is not None:
            tell(number, step, loss)
        if run.until and step > run.until:  # the validation of a step comes before the next one
            raise Paused

    if tell is not None or run.until:
        more["tell"] = told
    try:
        if not (folder / "run.json").exists():
            return train(settings, folder.parent, folder.name, **more)
        found = RunDirectory(folder, allow)
        if identity(found.settings) != identity(settings):
            raise RunError(f"{folder} has other settings")
        return found if found.status == "done" else resume(folder, allow=allow, **more)
    except DivergedError:
        return RunDirectory(folder, allow)


def clear(folder: Path) -> None:
    """Take away the files of a run, and nothing else; the lease stays."""
    for name in (*RUN_FILES, RESULT, *(path.name for path in folder.glob(RUNGS))):
        if name != "lock":
            with suppress(FileError, EngramError):
                check_plain(folder / name)
                (folder / name).unlink(missing_ok=True)
