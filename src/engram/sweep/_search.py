"""A search under way: trials are asked of optuna batch by batch, and replayed from the results that there are.

Nothing of the sampler is stored. Its seed, the order of the trials and their results decide what it asks, so a search
that is started again asks the same trials, finds their results, and goes on after them.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from engram.errors import EngramError, OptionError, unknown
from engram.files import beside
from engram.sweep._file import SweepFile
from engram.sweep._plan import Plan, Planned, columns_of, planned, scores_of
from engram.sweep._search_file import Range
from engram.train import Score, Settings, score_names

Results = Mapping[str, Mapping[str, Any]]
JOURNAL = "optuna.log"


@dataclass(eq=False)
class Trial:
    """One choice of settings, trained with every seed."""

    number: int
    asked: Any
    """The trial of optuna."""
    runs: tuple[Planned, ...]
    pruned: int = 0
    """The step at which it ended early; 0: it did not."""
    values: list[float] = field(default_factory=list)
    """What it was judged by, at its rungs and at its end; a trial that diverged has none from there on."""


class Trials:
    """The trials of a search so far. :meth:`advance` asks for more as far as results are there.

    Args:
        file: a sweep file with a search.
        allow: packages and files whose code the runs may import.
    """

    def __init__(self, file: SweepFile, allow: Sequence[str] = ()) -> None:
        if file.search is None:
            raise OptionError("the file has no [search]")
        self.optuna = _imported()
        self.file, self.search, self.allow = file, file.search, tuple(allow)
        self.metric = file.search.metric.replace("-", "_")
        self.runs: dict[str, Planned] = {}  # by key, in the order in which they are needed
        self.trials: list[Trial] = []
        self.pruned: dict[str, int] = {}  # the step at which a run ended early, by identity
        self.larger = self._check()
        self.study = self._new_study()
        self._phases_left = self._phases()
        self._phase: list[Planned] | None = next(self._phases_left)
        self._add()

    def advance(self, results: Results) -> Plan:
        """The plan with what can be trained next, given these results by key."""
        while self._phase is not None and all(run.key in results for run in self._phase):
            try:
                self._phase = self._phases_left.send(results)
                self._add()
            except StopIteration:
                self._phase = None
        return self.plan()

    def plan(self) -> Plan:
        """All runs so far."""
        ended = {run.key: run for trial in reversed(self.trials) for run in trial.runs if trial.pruned}
        pruned = {key: self.pruned[key] for key in ended if key not in self.runs}
        runs = sorted((ended | self.runs).values(), key=lambda run: run.values["trial"])
        return Plan(
            self.file.name, tuple(runs), columns_of(self.file, runs), retries=self.file.retries, pruned=pruned,
            search=self,
        )  # fmt: skip

    @property
    def words(self) -> str:
        """How many runs, how many trials at a time, and the steps at which they are compared, in words."""
        most, search = self.search.trials * len(self.file.seeds), self.search
        ends = f", compared at the steps {', '.join(map(str, search.rungs))}" if search.rungs else ""
        return f"a search: at most {most} runs, {search.parallel} trials at a time{ends}"

    def _phases(self) -> Generator[list[Planned], Results, None]:
        """Yields the runs that must be trained before the search can go on, and is sent all results so far."""
        for first in range(0, self.search.trials, self.search.parallel):
            batch = [self._ask(n) for n in range(first, min(first + self.search.parallel, self.search.trials))]
            left = [trial for trial in batch if trial.runs]
            for rung in self.search.rungs:
                results = yield [replace(run, until=rung) for trial in left for run in trial.runs]
                left = self._kept(left, rung, results)
            results = yield [run for trial in left for run in trial.runs]
            for trial in left:
                self._judge(trial, [self.value(run, results) for run in trial.runs])
            self._tell(batch, {trial.number for trial in left})

    def _ask(self, number: int) -> Trial:
        """The next trial of the sampler, with a run per seed (none if a condition skips them)."""
        asked = self.study.ask()
        row = {name: _suggested(asked, name, values) for name, values in self.search.space.items()}
        runs = [
            planned(self.file, changed, self.allow, number, alone=True)
            for seed in self.file.seeds
            for changed in self.file.conditions({**self.file.base, **row, "seed": seed, "trial": number})
        ]
        for run in runs:
            self._check_rungs(run.settings)
        trial = Trial(number, asked, tuple(runs))
        self.trials.append(trial)
        return trial

    def _kept(self, trials: list[Trial], rung: int, results: Results) -> list[Trial]:
        """The trials that go on after a rung, decided in the order of their numbers."""
        for trial in trials:
            self._judge(trial, [self.value(replace(run, until=rung), results) for run in trial.runs])
        alive = [trial for trial in trials if len(trial.values) > self.search.rungs.index(rung)]
        for trial in alive:
            trial.asked.report(trial.values[-1], rung)
        if self.search.pruner == "median":
            kept = [trial for trial in alive if not trial.asked.should_prune()]
        else:
            count = max(1, round(self.search.keep * len(trials)))
            order = sorted(alive, key=lambda trial: -trial.values[-1] if self.larger else trial.values[-1])
            kept = [trial for trial in alive if trial in order[:count]]
        for trial in trials:
            if trial not in kept:
                trial.pruned = rung
                self.pruned |= {run.identity: rung for run in trial.runs}
        return kept

    def _judge(self, trial: Trial, values: list[float | None]) -> None:
        """The mean over the seeds; none if one of them diverged."""
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            trial.values.append(fmean(known))

    def _tell(self, batch: list[Trial], ended: set[int]) -> None:
        """The sampler hears of a batch in the order of its numbers. What diverged is to it a trial that was pruned with
        nothing to show, the worst there is."""
        state = self.optuna.trial.TrialState
        for trial in batch:
            if trial.number in ended and len(trial.values) > len(self.search.rungs):
                self.study.tell(trial.asked, trial.values[-1])
            else:
                self.study.tell(trial.asked, state=state.PRUNED)

    def value(self, run: Planned, results: Results) -> float | None:
        """What a run is judged by; None if it diverged or is not there."""
        result = results.get(run.key)
        if result is None or result["status"] == "diverged":
            return None
        split, _, name = self.metric.partition("_")
        best: Mapping[str, float] = result.get("best") or {}
        found = best.get(name) if split == "valid" else scores_of(result).get(self.metric)
        return None if found is None else float(found)

    def row(self, run: Planned, results: Results) -> dict[str, Any]:
        """What the table says of a run besides: its value, and the rung where it ended early."""
        found: dict[str, Any] = {self.metric: self.value(run, results)}
        return found | ({"pruned_at": run.until or None} if self.search.rungs else {})

    def best(self) -> Trial | None:
        """The best trial that came to its end; of equal ones the first."""
        ended = [trial for trial in self.trials if len(trial.values) > len(self.search.rungs)]
        return min(ended, key=lambda trial: -trial.values[-1] if self.larger else trial.values[-1], default=None)

    def save(self, out: Path) -> None:
        """Write the finished trials as a journal that optuna's own programs can read."""
        path = out / JOURNAL
        with suppress(OSError):  # a view, which nothing depends on
            beside(path).unlink(missing_ok=True)
            backend = self.optuna.storages.journal.JournalFileBackend(str(beside(path)))
            study = self._new_study(self.optuna.storages.JournalStorage(backend))
            study.add_trials([trial for trial in self.study.get_trials(deepcopy=False) if trial.state.is_finished()])
            os.replace(beside(path), path)  # noqa: PTH105

    def _new_study(self, storage: Any = None) -> Any:
        samplers, pruners = self.optuna.samplers, self.optuna.pruners
        kind = {"tpe": samplers.TPESampler, "random": samplers.RandomSampler}[self.search.sampler]
        return self.optuna.create_study(
            storage=storage,
            study_name=self.file.name,
            sampler=kind(seed=self.search.seed),
            pruner=pruners.MedianPruner(),
            direction="maximize" if self.larger else "minimize",
        )

    def _add(self) -> None:
        """Take the runs of the new phase into the plan."""
        for run in self._phase or ():  # of two trials with the same settings the first one counts
            self.runs.setdefault(run.key, run)

    def _check(self) -> bool:
        """Refuse what cannot be searched, before anything is trained; whether larger values are better."""
        first = {name: values.extremes()[0] for name, values in self.search.space.items()}
        names: Sequence[str] = ()
        for name, values in self.search.space.items():
            for value in values.extremes():
                row = {**self.file.base, **first, name: value, "seed": self.file.seeds[0], "trial": 0}
                for changed in self.file.conditions(row):
                    settings = planned(self.file, changed, self.allow, alone=True).settings
                    self._check_rungs(settings)
                    names = names or self._names(settings)
        split, _, score = self.metric.partition("_")
        if names and self.metric not in names:
            raise unknown("metric of the search", self.metric, names)
        if self.search.rungs and split != "valid":
            raise OptionError(f"rungs are for a metric of validation, such as valid_loss; got {self.metric}")
        if self.search.direction:
            return self.search.direction == "maximize"
        try:
            return Score(score, [score]).larger
        except EngramError:
            raise OptionError(f'{score} does not tell whether larger is better: set direction = "maximize"') from None

    def _names(self, settings: Settings) -> list[str]:
        scores = score_names(settings.task)
        splits = [*settings.task.exams(), *(["valid"] if settings.resolved().budget.validate_every else [])]
        return [f"{split}_{name}".replace("-", "_") for split in splits for name in scores]

    def _check_rungs(self, settings: Settings) -> None:
        budget = settings.resolved().budget
        for rung in self.search.rungs:
            if rung >= (budget.steps or 0) or not budget.validate_every or rung % budget.validate_every:
                raise OptionError(
                    f"a rung must be a multiple of validate_every ({budget.validate_every}) below steps "
                    f"({budget.steps}), got {rung}"
                )


def _suggested(asked: Any, name: str, values: Range) -> Any:
    if values.choices:
        return asked.suggest_categorical(name, values.choices)
    if values.whole:
        return asked.suggest_int(name, int(values.low), int(values.high), step=int(values.step or 1), log=values.log)
    return asked.suggest_float(name, values.low, values.high, step=values.step, log=values.log)


def _imported() -> Any:
    try:
        import optuna
    except ImportError:
        raise OptionError("method = \"optuna\" needs the package optuna: pip install 'engram[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
