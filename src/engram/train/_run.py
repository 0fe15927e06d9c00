"""A run: settings in, a directory out, safe against being stopped at any instant."""

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from engram import errors
from engram.errors import EngramError, OptionError, RunError, StoppedError, check_size
from engram.train._denormals import without_denormals
from engram.train._directory import RunDirectory
from engram.train._fabric import make_fabric
from engram.train._files import locked, resume_command
from engram.train._interrupt import Interrupt
from engram.train._network import make_network
from engram.train._objective import score_names
from engram.train._optimizer import Optimizers
from engram.train._report import check_tensorboard
from engram.train._scores import Score
from engram.train._settings import Settings
from engram.train._worker import Observer, Tell, Worker

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(
    settings: Settings,
    out: Path | str = "runs",
    name: str | None = None,
    *,
    show: bool = False,
    command: str = "",
    observe: Observer | None = None,
    tell: Tell | None = None,
) -> RunDirectory:
    """Train a new run in ``out/name`` to its end, and test it.

    Ctrl-C saves and raises KeyboardInterrupt; a loss that is not finite or a full disk raise StoppedError. After
    any end, :func:`resume` goes on. ``show`` prints progress to standard error; ``command`` is noted in run.json;
    ``observe``, such as :func:`engram.probe.watch`, measures the network every ``settings.machine.probe_every`` steps;
    ``tell(step, loss)`` is called after every step, with one process.
    """
    settings = settings.resolved()  # resume with as many threads
    folder = None if name is None else Path(out) / _inside(name)
    _rehearse(settings)
    run = RunDirectory.create(folder or _reserved(Path(out), settings), settings, command)
    return _carry_on(run, show, observe, tell)


def resume(
    folder: Path | str,
    *,
    steps: int | None = None,
    show: bool = False,
    observe: Observer | None = None,
    allow: Sequence[str] = (),
    tell: Tell | None = None,
) -> RunDirectory:
    """Go on with a run that was stopped, killed or failed; or train one that is done for more ``steps`` in all.

    Args:
        folder: the run directory.
        steps: how many in all; default: as many as it was started with.
        show: print a line of progress.
        observe: measures the network every ``probe_every`` steps, such as :func:`engram.probe.watch`.
        allow: the packages and files of a run with code outside engram: they are not imported else.
        tell: is called after every step with its number and the loss, with one process.
    """
    run = RunDirectory(folder, allow)
    if steps is not None:
        extended = run.settings.replace(steps=check_size("steps", steps), epochs=None)
        run.settings, run.facts["settings"] = extended, extended.to_dict()
    elif run.status == "done":
        raise RunError(f"{run.folder} is done: engram evaluate {run.folder} shows it, --steps N trains it further")
    return _carry_on(run, show, observe, tell)


def _inside(name: str) -> str:
    """A name that stays within the folder of runs."""
    if not Path(name).parts or Path(name).is_absolute() or ".." in Path(name).parts:
        raise OptionError(f"the name of a run is a folder within out, such as first; got {name!r}")
    return name


def _rehearse(settings: Settings) -> None:
    """What is refused is refused before there is a directory."""
    with torch.random.fork_rng(devices=()):
        make_fabric(settings)
        Optimizers(make_network(settings), settings.optimiser)
        settings.batches("train")
        Score(settings.budget.stop_by, score_names(settings.task))
        if settings.machine.tensorboard:
            check_tensorboard()
        if settings.machine.processes > 1 and threading.current_thread() is not threading.main_thread():
            raise OptionError("several processes can only be started from the main thread")


def _reserved(out: Path, settings: Settings) -> Path:
    """A new folder, named by the time. The one that makes it has it: several may start in the same second."""
    name = f"{settings.task.name}-{settings.model.label}-{time.strftime('%Y%m%d-%H%M%S')}"
    out.mkdir(parents=True, exist_ok=True)
    for folder in (out / (f"{name}-{k}" if k else name) for k in count()):
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def _carry_on(run: RunDirectory, show: bool, observe: Observer | None, tell: Tell | None) -> RunDirectory:
    settings = run.settings
    with torch.random.fork_rng():
        if settings.machine.processes == 1:
            _work(make_fabric(settings), run, show, observe, tell=tell)
        else:
            _launch(settings, run, show, observe)
    return RunDirectory(run.folder, run.allow)


def _launch(settings: Settings, run: RunDirectory, show: bool, observe: Observer | None) -> None:
    """Several processes; what stops one of them is raised here as with one process."""
    stop = torch.zeros((), dtype=torch.bool).share_memory_()  # without a lock, which a killed process would keep
    before = {  # Ctrl-C is for all of them, SIGTERM for this one, which asks the others and waits until they have saved
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: stop.fill_(True)),
    }
    try:
        make_fabric(settings).launch(_work_quietly, run, show, observe, stop)  # type: ignore[arg-type]
    except (ProcessExitedException, ProcessRaisedException) as error:
        if stop:
            raise KeyboardInterrupt from None
        raise _told(error, run) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if RunDirectory(run.folder, run.allow).status == "stopped":
        raise KeyboardInterrupt


def _told(error: Exception, run: RunDirectory) -> Exception:
    """What ended the processes, as with one; all that is left of an exception is its traceback, as text."""
    _, ours, cause = str(error).rpartition("\nengram.errors.")
    kind, _, message = cause.partition(": ")
    if ours and hasattr(errors, kind):
        found: Exception = getattr(errors, kind)(message.strip())
        return found
    if isinstance(error, ProcessExitedException):
        by = f"by the signal {error.signal_name}" if error.signal_name else f"with exit code {error.exit_code}"
        what = f"process {error.error_index + 1} of {run.settings.machine.processes} was ended {by}"
    elif "by peer" in str(error):  # the others notice that first
        what = "a process of the run was ended from outside"
    else:
        return error
    reason = f"{what}; the last checkpoint is intact. Resume with: {resume_command(run.folder, run.allow)}"
    with suppress(EngramError, OSError), locked(run.folder):
        RunDirectory(run.folder, run.allow).note(status="failed", reason=reason)
    return StoppedError(reason)


def _work_quietly(
    fabric: "Fabric", run: RunDirectory, show: bool, observe: Observer | None, stop: Tensor | None = None
) -> None:
    with suppress(KeyboardInterrupt):  # run.json says that it was stopped
        _work(fabric, run, show, observe, stop)


def _work(
    fabric: "Fabric",
    run: RunDirectory,
    show: bool,
    observe: Observer | None,
    stop: Tensor | None = None,
    tell: Tell | None = None,
) -> None:
    """One process of a run, to its end."""
    lock = locked(run.folder) if fabric.is_global_zero else nullcontext()  # goes with the process that writes
    with lock, Interrupt(fabric, stop) as interrupt, without_denormals(run.settings.machine.threads):
        Worker(fabric, run, interrupt, show, observe, tell).work()
