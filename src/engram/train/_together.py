"""Several runs trained as one batched model: each in a run directory of its own, as if it were alone."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import torch

from engram.errors import DivergedError, OptionError, RunError, StoppedError
from engram.imports import is_outside
from engram.loops import use_threads
from engram.tasks import task_name
from engram.train._denormals import without_denormals
from engram.train._directory import RunDirectory
from engram.train._fabric import make_fabric
from engram.train._files import locked
from engram.train._interrupt import Interrupt
from engram.train._members import Ahead, Members
from engram.train._settings import Settings
from engram.train._why_not_together import keeps_bits, why_not_together
from engram.train._worker import Observer, Worker

TELL_EVERY = 0.2
"""Seconds between two reports of progress."""

Tell = Callable[[int, int, float], object]
"""``tell(index, step, loss)``: which member, how far it is, its last loss."""


def train_together(
    settings: Sequence[Settings],
    folders: Sequence[Path | str],
    *,
    tell: Tell | None = None,
    observe: Observer | None = None,
) -> list[RunDirectory]:
    """Train runs that differ in seed, rates and other numbers as one batched model, to their ends, and test them.

    Run k is in ``folders[k]``, with the files that :func:`train` gives it: made there, or resumed if it has begun. Each
    has a checkpoint of its own, so that a kill at any instant leaves every member a state to go on from, be it another
    step than its companions'. Members whose patience is over, or that are done, drop out; one whose loss is not finite
    fails alone, and its ``status`` and ``reason`` say so. Ctrl-C saves all and raises KeyboardInterrupt.

    What C computes is shared by as many threads as torch is set to when this is called; no bit depends on them.

    Args:
        settings: of each run; :func:`why_not_together` tells whether they fit.
        folders: of each run, in the same order.
        tell: called now and then with the number of a run, its step and its loss.
        observe: as for :func:`train`.
    """
    settings = [each.resolved() for each in settings]
    if len(settings) != len(folders) or len({Path(folder).resolve() for folder in folders}) != len(settings):
        raise OptionError(f"every run needs a folder of its own: got {len(settings)} runs and {len(folders)} folders")
    reason = why_not_together(settings)
    if reason:
        raise OptionError(f"these runs cannot be trained as one: {reason}")
    runs = [_opened(Path(folder), own) for folder, own in zip(folders, settings, strict=True)]
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(locked(run.folder))
        stack.enter_context(torch.random.fork_rng())
        fabric = make_fabric(settings[0])
        interrupt = stack.enter_context(Interrupt(fabric))
        stack.enter_context(use_threads(torch.get_num_threads()))
        threads = settings[0].machine.threads
        stack.enter_context(without_denormals(threads))
        ahead = stack.enter_context(Ahead(threads))
        workers = [None if run.status == "done" else Worker(fabric, run, interrupt, observe=observe) for run in runs]
        MemberWorkers(workers, ahead, interrupt, tell).work()
    return [RunDirectory(run.folder, run.allow) for run in runs]


def _opened(folder: Path, settings: Settings) -> RunDirectory:
    """The run in this folder, new or begun; one of other settings is refused."""
    if not (folder / "run.json").exists():
        return RunDirectory.create(folder, settings)
    names = [*settings.model.outside, task_name(settings.task)]
    run = RunDirectory(folder, [name for name in names if is_outside(name)])
    if run.settings.fingerprint() != settings.fingerprint() or run.settings.budget.steps != settings.budget.steps:
        raise RunError(f"{folder} holds a run of other settings: choose another folder")
    return run


class MemberWorkers:
    """The workers of all members, in rounds of one step; None stands for one that was done before.

    Where a member's bits do not depend on how many it is computed with, those that have ended leave the rows. Else
    (modules that are not engram's) their places stay filled, so that each member keeps its place and all stay as many.
    """

    def __init__(self, workers: list[Worker | None], ahead: Ahead, interrupt: Interrupt, tell: Tell | None) -> None:
        self.workers, self.ahead, self.interrupt, self.tell = workers, ahead, interrupt, tell or (lambda *_: None)
        self.told = 0.0
        self.members: Members | None = None
        self.drops_out = False
        self.computed: list[int] = []

    def work(self) -> None:
        """All to their ends, or to what stops them; each run.json says which."""
        try:
            while self._round():
                self.interrupt.check()
        except (KeyboardInterrupt, StoppedError) as error:
            self._end_all(error)
            raise
        except BaseException as error:
            with suppress(BaseException):
                self._end_all(error)
            raise

    def _round(self) -> bool:
        """One step of every member that has one; whether there are any."""
        for k, worker in enumerate(self.workers):
            if worker is not None:
                self._validated(k, worker)
        going = [k for k, worker in enumerate(self.workers) if worker is not None]
        if not going:
            return False
        members = self._stacked(going)
        taken = members.train_step()
        for place, k in enumerate(self.computed):
            worker = self.workers[k]
            if worker is None or k not in going:
                continue
            try:
                if (fault := taken[place].fault) is not None:
                    raise fault
                worker.after_step(taken[place].loss, taken[place].scores)
            except DivergedError as error:
                self._failed(k, error)
        if time.monotonic() - self.told >= TELL_EVERY:
            self.told = time.monotonic()
            for place, k in enumerate(self.computed):
                if self.workers[k] is not None:
                    self.tell(k, members.loops[place].step, taken[place].loss)
        return True

    def _validated(self, k: int, worker: Worker) -> None:
        """Before a step: validate, and test and leave if there is no further step."""
        try:
            if worker.before_step():
                return
        except DivergedError as error:
            self._failed(k, error)
            return
        self.workers[k] = None
        with worker.recorded():
            worker.test()
        best = worker.loop.best
        self.tell(k, worker.loop.step, float(best["loss"]))

    def _failed(self, k: int, error: DivergedError) -> None:
        worker, self.workers[k] = self.workers[k], None
        if worker is not None:
            with suppress(DivergedError), worker.recorded():
                raise error

    def _end_all(self, error: BaseException) -> None:
        """What ended the group ends every member: each saves what it can, and notes why."""
        for k, worker in enumerate(self.workers):
            self.workers[k] = None
            if worker is not None:
                with suppress(type(error), StoppedError), worker.recorded():
                    raise error

    def _stacked(self, going: list[int]) -> Members:
        """The rows of those that go on."""
        if self.members is None or (self.drops_out and self.computed != going):
            loops = [None if worker is None else worker.loop for worker in self.workers]
            first = next(loop for loop in loops if loop is not None)
            self.drops_out = keeps_bits(first.network, first.settings.budget.batch)
            self.computed = going if self.drops_out else list(range(len(loops)))
            self.members = Members([loops[k] for k in self.computed], self.ahead)
        return self.members
