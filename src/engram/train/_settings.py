"""Everything that decides what a run computes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from engram.errors import DTypeError, OptionError, check_size, unknown
from engram.files import seal
from engram.imports import check_allowed
from engram.models import Model, context_of, decisive, default_hidden, embedding_of, encoder_name_of
from engram.tasks import TASKS, Batches, Task, make_task, task_name
from engram.train._settings_budget import Budget
from engram.train._settings_machine import Machine
from engram.train._settings_optimiser import Group, Optimiser
from engram.train._threads import threads_for

GROUPS: dict[str, type] = {"model": Model, "optimiser": Optimiser, "budget": Budget, "machine": Machine}
NAMES = {("model", "name"): "model", ("optimiser", "name"): "optimizer"}
FLAT = {
    NAMES.get((group, each.name), each.name): (group, each.name)
    for group, kind in GROUPS.items()
    for each in fields(kind)
}
"""Where a setting is: ``hidden`` is ``("model", "hidden")``. The names of model and optimiser go by what they name."""
NOT_DECISIVE = {
    "budget": {"steps", "epochs", "test_samples", "stop_at"},
    "machine": {"device", "threads", "save_every", "log_every", "probe_every", "tensorboard"},
}
"""What may change when a run is resumed: it does not decide what a step computes."""


@dataclass(frozen=True)
class Settings:
    """What is trained on what, and how, in groups. Two runs of equal settings give equal weights, bit for bit, on one
    machine (``threads`` included: a run notes the number it was given).

    ``Settings(Copy(200), Model("nnrnn", hidden=64), Optimiser(lr=1e-3))``, or by the flat names of the command line:
    ``Settings.of(Copy(200), "nnrnn", hidden=64, lr=1e-3)``; checked when made.
    """

    task: Task
    """What is learned."""
    model: Model = field(default_factory=Model)
    """What learns it."""
    optimiser: Optimiser = field(default_factory=Optimiser)
    """How weights are changed: method, rates, schedule."""
    budget: Budget = field(default_factory=Budget)
    """How long: steps, batches, validations, when to stop."""
    machine: Machine = field(default_factory=Machine)
    seed: int = 0
    """Random seed for weights, data and dropout."""

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise DTypeError(f"task must be a task such as engram.tasks.Copy(delay=200), got {self.task!r}")
        for name, kind in GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise DTypeError(
                    f"{name} must be an engram {kind.__name__}, got {getattr(self, name)!r:.60}. "
                    "Settings.of(task, model, hidden=64, lr=1e-3) takes all settings by their names"
                )
        check_size("seed", self.seed, least=0)
        task, budget = self.task, self.budget
        size, processes = min(budget.batch, budget.samples or budget.batch), self.machine.processes
        if size % processes:
            raise OptionError(f"batch (and samples) must be a multiple of processes, got {size} and {processes}")
        waits = budget.patience or self.optimiser.plateau
        if waits and (budget.validate_every == 0 or not task.has_validation):
            raise OptionError("patience and plateau count validations, and this run has none: see validate_every")
        if budget.stop_at is not None and (budget.validate_every == 0 or not task.has_validation):
            raise OptionError("stop_at waits for a validation, and this run has none: see validate_every")
        if budget.epochs and not budget.samples and not task.is_data_set:
            raise OptionError(f"{task.name} has no epochs: give steps, or samples with epochs")
        for name in ("valid_samples", "test_samples"):
            if getattr(budget, name) == 0 and not task.is_data_set:
                raise OptionError(f"{name} must be at least 1, got 0: only a data set has an end")

    @classmethod
    def of(cls, task: Task, model: str = "exprnn", **flat: Any) -> Self:
        """Settings by flat names, those of the command line: ``hidden=8, lr=0.1, optimizer="sgd", options={...}``.

        What is not said is that of the task's papers (``task.defaults``, ``task.widths``), or the default of all tasks.
        """
        defaults = task.defaults if isinstance(task, Task) else {}
        return cls(task).replace(**{**defaults, **flat, "model": model})

    def replace(self, **flat: Any) -> Self:
        """A copy with other values, by flat names (``task`` and ``seed`` among them)."""
        changes: dict[str, dict[str, Any]] = {}
        top = {name: flat.pop(name) for name in ("task", "seed") if name in flat}
        default = self.task.widths.get(self.model.name) or default_hidden(self.model.kind)
        if "model" in flat and self.model.hidden == default:  # then the other model has its own default
            changes["model"] = {"hidden": top.get("task", self.task).widths.get(flat["model"])}
        for name, value in flat.items():
            if name not in FLAT:
                raise unknown("setting", name, [*FLAT, "task", "seed"])
            group, own = FLAT[name]
            changes.setdefault(group, {})[own] = value
        return replace(self, **top, **{group: replace(getattr(self, group), **c) for group, c in changes.items()})

    def resolved(self) -> Self:
        """The same settings with every default that depends on others as the value it has."""
        task, model, optimiser, budget = self.task, self.model, self.optimiser, self.budget
        steps, every = budget.steps, budget.validate_every
        if steps is None or every is None:
            epoch = self._epoch()
            steps = (budget.epochs or 1) * (epoch or 1000) if steps is None else steps
            every = (epoch or 100) if every is None else every
        found: dict[str, Any] = {
            "embedding": embedding_of(task, model),
            "encoder": encoder_name_of(task, model),
            "context": context_of(task, model),
            "lr_orthogonal": optimiser.lr / 10,
            "momentum": optimiser.default_momentum,
            "schedule": optimiser.schedule_name,
            "cosine_steps": max(steps, 1) if optimiser.schedule_name == "cosine" else None,
            "valid_samples": 0 if task.is_data_set else 256,
            "test_samples": 0 if task.is_data_set else 1024,
        }
        found = {
            name: value for name, value in found.items() if getattr(getattr(self, FLAT[name][0]), name) in (None, "")
        }
        threads = self.machine.threads or threads_for(budget.batch, model.hidden, self.machine.processes)
        every = every if task.has_validation else 0
        return self.replace(**found, steps=steps, epochs=None, validate_every=every, threads=threads)

    def _epoch(self) -> int:
        """Steps per epoch, 0 where there is none; only a data set is read for it."""
        if self.task.is_data_set:
            return self.batches("train").per_epoch
        samples = self.budget.samples
        return samples // min(samples, self.budget.batch) if samples else 0

    def batches(self, split: str, task: Task | None = None) -> Batches:
        """The batches of a split of the task, or of another task that the model is tested on."""
        task = task or self.task
        given = {"train": self.budget.samples, "valid": self.budget.valid_samples}.get(split, self.budget.test_samples)
        default = 0 if task.is_data_set else {"train": 0, "valid": 256}.get(split, 1024)
        size = default if given is None else given
        return task.batches(split, self.budget.batch, self.seed, size)

    def fingerprint(self) -> str:
        """A hash of all that decides what a step computes: a checkpoint is resumed under equal settings only."""
        values = self.resolved().to_dict()
        values["model"] = decisive(values["model"])
        for group, names in NOT_DECISIVE.items():
            values[group] = {name: value for name, value in values[group].items() if name not in names}
        return seal(values)

    def to_dict(self) -> dict[str, Any]:
        """By groups, for run.json and TOML: ``from_dict`` gives the same settings back."""
        return {
            "seed": self.seed,
            "task": {"name": task_name(self.task), **self.task.options()},
            "model": self.model.to_dict(),
            "optimiser": asdict(self.optimiser),
            "budget": asdict(self.budget),
            "machine": asdict(self.machine),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], allow: Sequence[str] = ()) -> Self:
        """Settings out of run.json or a TOML file. A name that no setting has is refused, and so is code outside
        engram, unless ``allow`` has its package or its file."""
        groups = groups_of(values, allow)
        task = values.get("task")
        task = {"name": task} if isinstance(task, str) else task
        if not isinstance(task, dict) or not isinstance(task.get("name"), str):
            raise OptionError(f"settings need a task, a name or a table with a name ({', '.join(TASKS)}); got {task!r}")
        check_allowed(task["name"], allow)
        options = {name: tuple(v) if isinstance(v, list) else v for name, v in task.items() if name != "name"}
        return cls(**{**groups, "task": make_task(task["name"], **options)})


def groups_of(values: dict[str, Any], allow: Sequence[str] = ()) -> dict[str, Any]:
    """The groups and the seed that a file gives, checked; the task is left to the caller."""
    for name, value in values.items():
        if name in GROUPS and not isinstance(value, dict):
            raise OptionError(f"{name} is a group of settings, [{name}] with NAME = VALUE below it; got {value!r:.60}")
        if name in FLAT and name not in GROUPS:
            group, own = FLAT[name]
            raise OptionError(f"{name} is a setting of the group {group}: write [{group}] and below it {own} = ...")
        if name not in ("task", "seed", *GROUPS):
            raise unknown("setting", name, ["task", "seed", *GROUPS])
    found: dict[str, Any] = {"seed": values["seed"]} if "seed" in values else {}
    for name, kind in GROUPS.items():
        if name in values:
            found[name] = kind.from_dict(values[name], allow) if kind is Model else _group(name, kind, values[name])
    return found


def _group(name: str, kind: type, values: dict[str, Any]) -> Any:
    known = [each.name for each in fields(kind)]
    for key in values:
        if key not in known:
            raise unknown(f"setting of [{name}]", key, known)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    if isinstance(values.get("groups"), tuple):
        values["groups"] = tuple(
            _group("optimiser.groups", Group, each) if isinstance(each, dict) else each for each in values["groups"]
        )
    return kind(**values)
