"""One process of a run: the loop between its files."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from engram.errors import DivergedError, OptionError, RunError, StoppedError, check_size
from engram.train._checkpoint import OLD_TENSORS, OLD_VALUES, VALUES, Checkpoint, load, load_for_resume, save
from engram.train._directory import RunDirectory, versions
from engram.train._files import AppendedFile, resume_command
from engram.train._interrupt import Asked, Interrupt
from engram.train._loop import Loop
from engram.train._report import Report

if TYPE_CHECKING:
    from lightning_fabric import Fabric


Observer = Callable[[Any, Any], dict[str, float]]
"""``observe(network, task)`` measures the network as it is, and changes nothing."""
Tell = Callable[[int, float], None]
"""``tell(step, loss)`` is called after every step, by the process that writes; it may raise Asked to stop there."""


class Worker:
    """Trains, validates, tests and saves. Only the first process writes.

    A checkpoint of step k is written once its weights have given a finite loss, so the last one is always good.
    metrics.jsonl is cut back to where the checkpoint found it when a run is resumed: each line is there once.

    Args:
        fabric: Lightning Fabric with the run's device, precision and processes: ``make_fabric(settings)``.
        run: the directory of the run; its checkpoint, if there is one, is where training goes on.
        interrupt: tells when somebody asks to stop; default: Ctrl-C and SIGTERM.
        show: print progress.
        observe: called every ``probe_every`` steps; what it measures goes into metrics.jsonl.
        tell: called after every step with the step and its loss.
    """

    def __init__(
        self,
        fabric: "Fabric",
        run: RunDirectory,
        interrupt: Interrupt | None = None,
        show: bool = False,
        observe: Observer | None = None,
        tell: Tell | None = None,
    ) -> None:
        if run.settings.machine.probe_every and observe is None:
            raise OptionError("probe_every needs something to measure with: observe=engram.probe.watch")
        self.observe, self.tell = observe, tell
        self.run, self.interrupt, self.leads = run, interrupt or Interrupt(fabric), fabric.is_global_zero
        self.loop = Loop(run.settings, fabric)
        length = 0
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            # TENSORS alone are a first save that was cut off
            if any((run.folder / name).exists() for name in (VALUES, OLD_VALUES, OLD_TENSORS)):
                length = self._restore((load_for_resume if self.leads else load)(run.folder))
        if self.loop.step > self.loop.total:
            raise RunError(f"{run.folder} is at step {self.loop.step} already: steps must be at least that")
        if run.status == "done":
            self.loop.stale = 0  # trained further, though its patience was over
            self.loop.stop_at = None  # or its goal was reached
        self.testing = False
        self.good: Checkpoint | None = None  # the last state that is known to give a finite loss
        self.before: Checkpoint | None = None  # the state before the step that is being taken, where it is kept
        self.due = False  # whether that state is to be saved
        self.saved = -float("inf")  # the first step saves: there is always something to go back to
        if self.leads:
            self._open(length, show)
            for warning in heard:
                self.report.say(f"warning: {warning.message}")
                if not show:
                    warnings.warn(warning.message, stacklevel=2)

    def _restore(self, checkpoint: Checkpoint) -> int:
        """The loop as it was; the length of metrics.jsonl then."""
        try:
            if checkpoint.values["settings"] != self.run.settings.fingerprint():
                raise ValueError("run.json was changed since; undo that, or start a new run")
            self.loop.restore(checkpoint)
            return check_size("metrics", checkpoint.values["metrics"], least=0)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"the checkpoint of {self.run.folder} does not fit its settings: {error}") from error

    def _open(self, length: int, show: bool) -> None:
        """The files, cut back to the checkpoint."""
        loop, run = self.loop, self.run
        self.metrics = AppendedFile(run.folder / "metrics.jsonl", length)
        self.report = Report(
            run.folder, run.settings.task, loop.total, show, run.settings.machine.tensorboard, loop.step
        )
        then, now = run.facts["versions"], versions(run.settings)
        changed = [f"{name} {then.get(name)} -> {now[name]}" for name in now if now[name] != then.get(name)]
        if changed and loop.step:
            self.report.say(
                f"warning: not the machine or versions of the start ({'; '.join(changed)}): last bits may differ"
            )
        count = sum(p.numel() for p in loop.network.parameters())
        self.report.say(
            f"{run.settings.model.label} on {run.settings.task.name}: {count:,} parameters, "
            f"step {loop.step} of {loop.total}, in {run.folder}"
        )
        run.note(status="running", reason="", parameters=count, total_steps=loop.total)

    def work(self) -> None:
        """To the end, or to what stops it; run.json says which."""
        with self.recorded():
            self.train()
            self.test()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """A block after which the run has ended, well or by what was raised; run.json says which."""
        status, reason, diverged = "failed", "an error of the program", False
        try:
            yield
            status, reason = "done", ""
        except KeyboardInterrupt as interrupt:
            try:
                self._stop(all_well=isinstance(interrupt, Asked))
            except StoppedError as error:
                reason = str(error)
                raise
            status, reason = "stopped", f"interrupted at step {self.loop.step}"
            raise
        except DivergedError as error:
            reason, diverged = f"{error}. {self._keep_good()}", True
            raise DivergedError(reason) from error
        except StoppedError as error:
            reason = str(error)
            raise
        finally:
            if self.leads:
                self.report.close()
                self.metrics.close()
                with suppress(StoppedError, OSError):  # the disk may be full
                    self._end(status=status, reason=reason, diverged=diverged)

    def _end(self, **facts: Any) -> None:
        """The last entries of run.json."""
        loop = self.loop
        best = loop.best if loop.best_weights else None
        self.run.note(**facts, step=loop.step, seconds=round(loop.seconds, 3), best=best)

    def _keep_good(self) -> str:
        """After a loss that is not finite: the last state that gave a finite one is the one to go back to."""
        if self.good is None:
            return f"See {self.run.folder}"
        with suppress(StoppedError):  # the disk may be full: then the last checkpoint stays
            self._save(self.good)
        rates = f"lr (now {self.loop.optimizers.lr:g}) or clip (now {self.run.settings.optimiser.clip:g})"
        return f"The state of step {self.good.values['step']} is kept; start again with a smaller {rates}"

    def _stop(self, all_well: bool) -> None:
        """Save, unless a step is half done (the checkpoint before is good) or the test has begun (all is saved)."""
        if all_well and not self.testing:
            self._save(self._state())
        if self.leads:
            saved = "all saved" if all_well else "at once: what came after the last checkpoint will be done again"
            self.report.say(
                f"stopped at step {self.loop.step}, {saved}. "
                f"Resume with: {resume_command(self.run.folder, self.run.allow)}"
            )

    def train(self) -> None:
        """To the last step, or until the patience is over or the goal is reached."""
        while self.before_step():
            self.after_step(*self.loop.train_step())
            self.interrupt.check()

    def before_step(self) -> bool:
        """Validate if that is due; whether there is another step, which the loop then takes."""
        loop, machine = self.loop, self.run.settings.machine
        if loop.validation_due:
            self._line("valid", loop.validate(self.interrupt.check))
        if loop.finished:
            return False
        self.due = self.interrupt.agree(time.monotonic() - self.saved >= machine.save_every)
        self.before = self._state() if self.due or loop.step % machine.log_every == 0 else None
        return True

    def after_step(self, loss: float, scores: Callable[[], dict[str, float]]) -> None:
        """Note what a step gave, and keep the state before it, which has now given a finite loss."""
        loop, machine = self.loop, self.run.settings.machine
        self.good = self.before or self.good
        if self.due and self.before is not None:
            self._save(self.before)
        self.before = None  # the next step may have its memory
        if self.leads:
            self.report.at(loop.step, loss)
        if loop.step % machine.log_every == 0 or loop.step == loop.total:
            self._line("train", {"loss": loss, **scores(), "lr": loop.optimizers.lr})
        if self.observe and machine.probe_every and loop.step % machine.probe_every == 0:
            self._line("probe", self.observe(loop.network, self.run.settings.task))
        if self.tell is not None and self.leads:
            self.tell(loop.step, loss)

    def test(self) -> None:
        """The best weights, on everything the task examines."""
        loop = self.loop
        self._save(self._state())
        self.testing = True
        loop.use_best_weights()
        results = {}
        for split in loop.objective.exams:
            results[split] = loop.evaluate(split, self.interrupt.check)
            self._line(split, results[split])
        if self.leads:
            self.run.note(results=results)

    def _line(self, split: str, scores: dict[str, float]) -> None:
        if self.leads:
            line = {"step": self.loop.step, "split": split, **scores, "seconds": round(self.loop.seconds, 3)}
            self.metrics.write(json.dumps(line))
            self.report.scores(line)

    def _state(self) -> Checkpoint:
        tensors, values = self.loop.state()
        length = self.metrics.length if self.leads else 0
        return Checkpoint(tensors, values | {"metrics": length, "settings": self.run.settings.fingerprint()})

    def _save(self, state: Checkpoint) -> None:
        if not all(bool(t.isfinite().all()) for name, t in state.tensors.items() if name.startswith("network.")):
            raise DivergedError(f"the weights are not finite after step {state.values['step']}")
        if self.leads:
            try:
                self.metrics.sync()
                save(self.run.folder, state)
            except OSError as error:
                raise StoppedError(
                    f"{self.run.folder} could not be written ({error.strerror}); the last checkpoint is intact. "
                    f"Make room, then: {resume_command(self.run.folder, self.run.allow)}"
                ) from error
        self.saved = time.monotonic()
