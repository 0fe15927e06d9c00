"""The runs of a sweep: their settings, their names, and which of them can start."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engram import __version__
from engram.errors import EngramError, OptionError
from engram.files import seal
from engram.imports import code_hash, is_outside
from engram.models import decisive
from engram.runs import Where
from engram.sweep._budget import within_budget
from engram.sweep._file import Row, SweepFile
from engram.sweep._lines import line_of, line_of_setting
from engram.sweep._together import WITHOUT_EFFECT, kind_of
from engram.tasks import Task, task_name
from engram.train import Settings, score_names

OWN_NAMES = (("model", "name"), ("model", "encoder"), ("task", "name"))
"""Settings, by group and name, that may name a class of one's own."""
HASH = 16
"""Letters of the identity that end the name of a run's folder."""
SHOWN_AS = {"parameters": "budget"}
"""Settings whose column has another name: ``parameters`` of the file is a limit, of the table what a network has."""


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    values: dict[str, Any]
    """What the table shows of its settings, by name."""
    settings: Settings
    """All that it is trained with."""
    identity: str
    """The hash of all that decides its result."""
    ladder: int = -1
    """The number of its ladder; -1 if it is on none."""
    place: int = 0
    """Its place on the ladder."""
    kind: str = ""
    """Runs of one kind may train together; "" for one that trains alone."""
    until: int = 0
    """In a search: only to this step for now, to be compared with others there; 0: to the end."""

    @property
    def key(self) -> str:
        """The name of its result: the identity, with the step if the run is only to come to a rung."""
        return f"{self.identity}@{self.until}" if self.until else self.identity

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"{self.settings.task.name}-{self.settings.model.label}-{self.identity[:HASH]}".replace("/", "-")


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, in the order of its file."""

    name: str
    """What tables and messages call it."""
    runs: tuple[Planned, ...]
    varied: tuple[str, ...]
    """The columns that tell runs apart; the seed is last."""
    solved: Where | None = None
    """When a run on a ladder lets the next one start."""
    over: str = ""
    """What the ladder goes over."""
    retries: int = 2
    """How often a run that fails is tried again."""
    pruned: Mapping[str, int] = field(default_factory=dict)
    """In a search: the runs that ended early, by identity, and the step."""
    search: Any = None
    """What asks for more runs as results come in, an engram.sweep.Trials; None: these are all."""
    _before: dict[str, str] = field(default_factory=dict, repr=False)
    """By identity: the run before this one on its ladder."""

    def __post_init__(self) -> None:
        last: dict[int, str] = {}
        for run in self.runs:  # the runs of a ladder stand in its order
            if run.ladder in last:
                self._before[run.identity] = last[run.ladder]
            if run.ladder >= 0:
                last[run.ladder] = run.identity

    @property
    def ends(self) -> tuple[Planned, ...]:
        """The runs of the table: each once and to its end, though a search may list it at several rungs."""
        return tuple({run.identity: replace(run, until=0) for run in self.runs}.values())

    @property
    def count(self) -> int:
        """How many there are to train: those that a search ended are not."""
        return len(self.runs) - len(self.pruned)

    def grown(self, results: Mapping[str, Mapping[str, Any]]) -> "Plan":
        """The plan with the runs that a search asks for, given the results so far."""
        found: Plan = self if self.search is None else self.search.advance(results)
        return found

    def is_open(self, run: Planned, results: Mapping[str, Mapping[str, Any]]) -> bool | None:
        """Whether a run may start, given the results by identity: None if that is not known yet, False if it never
        will, because a run before it on its ladder was not solved, or a search ended it."""
        if run.identity in self.pruned and not run.until:
            return False
        before = self._before.get(run.identity)
        if before is None or (before in results and is_solved(self.solved, results[before])):
            return True
        while before is not None and before not in results:
            before = self._before.get(before)
        return None if before is None or is_solved(self.solved, results[before]) else False

    def left(self, results: Mapping[str, Mapping[str, Any]]) -> list[Planned]:
        """The runs that are to be trained still, as far as that is known: not those that their ladder will not need."""
        return [run for run in self.runs if run.key not in results and self.is_open(run, results) is not False]

    def comes_after(self, run: Planned, failed: Container[str]) -> bool:
        """Whether a run before this one on its ladder is among those that failed."""
        before: str | None = run.identity
        while (before := self._before.get(str(before))) is not None:
            if before in failed:
                return True
        return False


def is_solved(solved: Where | None, result: Mapping[str, Any]) -> bool:
    """Whether the scores of a result meet the condition: those of the test by their names, others as ``split_name``."""
    return solved is not None and result["status"] == "done" and solved(scores_of(result))


def scores_of(result: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a result in one dictionary: ``test_loss``, and those of the test also as ``loss``. Names have
    underscores only, as in conditions: ``test_400_loss`` is the loss of test-400."""
    splits: dict[str, dict[str, float]] = result.get("results") or {}
    found = {_underscores(split, name): value for split, scores in splits.items() for name, value in scores.items()}
    return found | dict(splits.get("test", {}))


def make_plan(file: SweepFile, allow: Sequence[str] = ()) -> Plan:
    """The runs of a sweep file, of a search its first batch. The settings of all are checked before any is started."""
    if file.search is not None:
        from engram.sweep._search import Trials  # which stands on this file

        return Trials(file, allow).plan()
    runs: list[Planned] = []
    for row, ladder, place in file.rows():
        run = planned(file, row, tuple(allow), len(runs), alone=ladder >= 0)
        runs.append(replace(run, ladder=ladder, place=place))
    if not runs:
        raise OptionError("the sweep has no run: its conditions leave out all of them")
    if file.ladder is not None:
        try:
            _check_scores(file.ladder.solved, runs[0].settings.task)
        except OptionError as error:
            line = line_of(file.text, "ladder", "solved")
            raise OptionError(f"line {line}: {error}" if line else str(error)) from None
    varied = columns_of(file, runs)
    solved, over = (file.ladder.solved, file.ladder.over) if file.ladder else (None, "")
    return Plan(file.name, _once(runs), varied, solved, over, file.retries)


def planned(file: SweepFile, row: Row, allow: tuple[str, ...], number: int = 0, *, alone: bool) -> Planned:
    """The run of a row of a sweep file; ``alone`` if it may not train together with others."""
    try:
        settings = _with_one_thread(within_budget({name: row[name] for name in row if name != "trial"}, allow))
        kind = "" if alone or not file.together else kind_of(settings)  # makes a network, which may refuse an option
    except EngramError as error:
        line = line_of_setting(file.text, row, str(error))
        where = f"line {line}: " if line else ""
        raise OptionError(f"{where}run {number + 1} ({_words(row, file.varied)}): {error}") from None
    values = {SHOWN_AS.get(name, name): row.get(name) for name in file.varied}
    if "parameters" in row:
        values = {"hidden": settings.model.hidden} | values
    return Planned(values, settings, identity(settings, together=bool(kind)), kind=kind)


def columns_of(file: SweepFile, runs: Iterable[Planned]) -> tuple[str, ...]:
    """The columns that tell the runs of a file apart."""
    varied = ("hidden", *file.varied) if any("hidden" in run.values for run in runs) else file.varied
    return tuple(dict.fromkeys(SHOWN_AS.get(name, name) for name in varied))


def plan_of_seeds(settings: Settings, seeds: Iterable[int], name: str) -> Plan:
    """The shortest sweep: one run for each seed."""
    runs = []
    for seed in seeds:
        own = _with_one_thread(settings.replace(seed=seed))
        kind = kind_of(own)
        runs.append(Planned({"seed": seed}, own, identity(own, together=bool(kind)), kind=kind))
    return Plan(name, tuple(runs), ("seed",))


def identity(settings: Settings, together: bool = False) -> str:
    """The hash of all that decides the result of a run: settings, version, code outside engram, and whether it trains
    together with others."""
    full = settings.resolved().to_dict()
    values = deciding(full)
    code = {**settings.model.outside, task_name(settings.task): type(settings.task)}
    for group, own in OWN_NAMES:
        if is_outside(name := full[group].get(own, "")):
            values[group][own] += f" {code_hash(code[name])}"
    return seal({"settings": values, "engram": __version__, "together": together})


def deciding(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as in run.json, without those that change no score; own classes by name, wherever their files are."""
    values = {name: dict(group) if isinstance(group, Mapping) else group for name, group in settings.items()}
    values["machine"] = {name: value for name, value in values["machine"].items() if name not in WITHOUT_EFFECT}
    if values["budget"].get("stop_at") is None:  # not given: the hash is the one from before there was such a setting
        values["budget"].pop("stop_at", None)
    values["model"] = decisive(values["model"])
    for group, own in OWN_NAMES:
        if is_outside(name := values[group].get(own, "")):
            values[group][own] = name.rpartition(":")[2]
    return values


def _with_one_thread(settings: Settings) -> Settings:
    """One thread, unless the file says how many: many small runs use a machine better side by side, and the number of
    threads, which may change last bits, must not depend on the machine."""
    return settings if settings.machine.threads else settings.replace(threads=1)


def _once(runs: list[Planned]) -> tuple[Planned, ...]:
    """Equal runs, which conditions may make, are one."""
    found: dict[str, Planned] = {}
    for run in runs:
        if found.setdefault(run.identity, run) is not run and run.ladder >= 0:
            raise OptionError(f"two places of a ladder are the same run ({_words(run.values, run.values)})")
    return tuple(found.values())


def _check_scores(solved: Where, task: Task) -> None:
    """A name that no score has would make a condition that is never met."""
    names = score_names(task)
    known = [*names, *(_underscores(split, name) for split in task.exams() for name in names)]
    Where(solved.text, tuple(known))


def _underscores(split: str, name: str) -> str:
    return f"{split}_{name}".replace("-", "_")


def _words(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={row[name]}" for name in names if name in row)
