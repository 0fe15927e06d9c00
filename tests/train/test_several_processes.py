"""What the process that was started does for the others: signals, how they end, what is told; without any."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from engram.errors import DivergedError, OptionError, StoppedError
from engram.tasks import Copy
from engram.train import RunDirectory, Settings
from engram.train import _run as running
from engram.train._evaluate import carry_on
from engram.train._interrupt import Asked, Interrupt
from engram.train._objective import Supervised


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    settings = Settings.of(Copy(5), "rnn", hidden=4, batch=4, steps=3, validate_every=0, threads=1, processes=2)
    return RunDirectory.create(tmp_path / "run", settings)


def exited(name: str | None = None) -> ProcessExitedException:
    return ProcessExitedException("process 1 terminated", 1, 4242, -9 if name else 3, name)


def raised(text: str) -> ProcessRaisedException:
    return ProcessRaisedException(
        f"\n\n-- Process 1 terminated with the following error:\nTraceback ...\n{text}", 1, 4242
    )


TOLD: list[tuple[Exception, type[Exception], str]] = [
    (raised("engram.errors.DivergedError: the loss is nan at step 3\n"), DivergedError, "^the loss is nan at step 3$"),
    (raised("engram.errors.StoppedError: disk: full\n"), StoppedError, "^disk: full$"),
    (raised("engram.errors.OptionError: a\nengram.errors.RunError: b: c"), Exception, "^b: c$"),  # the last one
    (raised("engram.errors.NoSuchError: a"), ProcessRaisedException, "NoSuchError"),
    (raised("KeyError: 3"), ProcessRaisedException, "KeyError: 3"),
    (exited("SIGKILL"), StoppedError, "^process 2 of 2 was ended by the signal SIGKILL; the last checkpoint is intact"),
    (
        exited(),
        StoppedError,
        "^process 2 of 2 was ended with exit code 3; the last checkpoint is intact. Resume with: ",
    ),
    (raised("RuntimeError: Connection closed by peer"), StoppedError, "^a process of the run was ended from outside;"),
]


@pytest.mark.parametrize(("error", "kind", "words"), TOLD)
def test_what_ended_them(error: Exception, kind: type[Exception], words: str, run: RunDirectory) -> None:
    """As with one process; what only this one knows is noted in run.json too."""
    found = running._told(error, run)
    with pytest.raises(kind, match=words):
        raise found
    facts = RunDirectory(run.folder).facts
    if "the last checkpoint is intact" in str(found):
        assert (facts["status"], facts["reason"]) == ("failed", str(found))
        assert str(found).endswith(f"Resume with: engram resume {run.folder}")
    else:
        assert facts["status"] == "new"


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("how", ["well", "stopped", "SIGTERM", "error", "killed", "another error"])
def test_the_signals_while_they_run(how: str, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is left to them, SIGTERM asks them; afterwards both are as before."""
    asked: list[Any] = []

    def launch(work: Any, own: RunDirectory, show: bool, observe: Any, stop: torch.Tensor) -> None:
        asked.append((work, own, show, observe, bool(stop), handlers()[0]))
        if how in ("SIGTERM", "killed"):
            signal.raise_signal(signal.SIGTERM)
        if how == "SIGTERM":
            assert bool(stop)
            raise exited("SIGTERM")
        if how in ("stopped", "killed"):
            run.note(status="stopped")
        if how == "error":
            raise raised("engram.errors.DivergedError: the loss is nan")
        if how == "another error":
            raise ZeroDivisionError

    monkeypatch.setattr(running, "make_fabric", lambda settings: SimpleNamespace(launch=launch))
    before = handlers()
    ends: dict[str, type[BaseException]] = {"error": DivergedError, "another error": ZeroDivisionError}
    if how == "well":
        running._launch(run.settings, run, True, None)
    else:
        with pytest.raises(ends.get(how, KeyboardInterrupt)):
            running._launch(run.settings, run, True, None)
    assert asked == [(running._work_quietly, run, True, None, False, signal.SIG_IGN)]
    assert handlers() == before


def test_one_process_or_several(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(running, "_work", lambda *_, **__: said.append("here"))
    monkeypatch.setattr(running, "_launch", lambda *_: said.append("there"))
    running._carry_on(run, False, None, None)
    run.settings = run.settings.replace(processes=1)
    running._carry_on(run, False, None, None)
    assert said == ["there", "here"]

    def interrupted(*_: Any) -> None:
        raise Asked

    monkeypatch.setattr(running, "_work", interrupted)
    running._work_quietly(SimpleNamespace(), run, False, None)  # type: ignore[arg-type]


def test_they_stop_at_the_same_step() -> None:
    """Each asks the first one; the flag of the process that started them counts as Ctrl-C."""
    asked: list[bool] = []

    def broadcast(wish: bool) -> bool:
        asked.append(wish)
        return True

    stop = torch.zeros((), dtype=torch.bool)
    second = Interrupt(SimpleNamespace(world_size=2, broadcast=broadcast), stop)  # type: ignore[arg-type]
    with pytest.raises(Asked):
        second.check()
    stop.fill_(True)
    with pytest.raises(Asked):
        second.check()
    assert asked == [False, True]
    alone = Interrupt(SimpleNamespace(world_size=1), torch.zeros((), dtype=torch.bool))  # type: ignore[arg-type]
    alone.check()
    assert (alone.agree(True), alone.agree(False)) == (True, False)
    alone.stop = stop
    with pytest.raises(Asked):
        alone.check()


def test_scores_are_means_over_processes() -> None:
    objective: Any = object.__new__(Supervised)
    objective.fabric = SimpleNamespace(world_size=2, device=torch.device("cpu"), all_reduce=lambda mean: mean / 4)
    assert objective._mean_scores({"a": 2.0, "b": -1.0}) == {"a": 0.5, "b": -0.25}
    objective.fabric = SimpleNamespace(world_size=1)
    assert objective._mean_scores({"a": 2.0}) == {"a": 2.0}
    assert carry_on(objective, None) is None


def test_a_lock_is_of_the_process_that_writes(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others must not wait for it."""
    from filelock import FileLock

    from engram.train._files import locked

    seen: list[bool] = []

    def worker(*_: Any) -> Any:
        lock = FileLock(run.folder / "lock")
        try:
            lock.acquire(timeout=0)
        except TimeoutError:
            seen.append(True)
        else:
            lock.release()
            seen.append(False)
        return SimpleNamespace(work=lambda: None)

    monkeypatch.setattr(running, "Worker", worker)
    for first in (True, False):
        running._work(SimpleNamespace(is_global_zero=first, world_size=2), run, False, None)  # type: ignore[arg-type]
    assert seen == [True, False]
    with locked(run.folder):
        pass


def test_more_processes_than_a_batch_has_rows() -> None:
    with pytest.raises(OptionError, match="multiple of processes"):
        Settings.of(Copy(5), batch=1, processes=2)
