"""Everything that decides what a run computes."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from engram.errors import LARGEST, DTypeError, OptionError, check_choice, check_number, check_size, unknown
from engram.files import seal
from engram.imports import check_allowed, full_name, is_outside
from engram.models import MODELS, Model
from engram.tasks import TASKS, Batches, Task, make_task, task_name

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")
PRECISIONS = ("32-true", "64-true", "bf16-mixed")
MOST = {"hidden": 10**6, "embedding": 10**6, "layers": 1000, "processes": 128, "threads": 1024}
"""More than any network or machine of today has; with 100,000 threads a process has no memory for their stacks."""


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as keyword arguments: numbers, booleans and tuples are read as Python's, the rest is text.

    >>> read_options(["delay=20", "layout=at"])
    {'delay': 20, 'layout': 'at'}
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.isidentifier() and equals):
            raise OptionError(f"an option is NAME=VALUE, such as activation=tanh; got {word!r}")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            options[name] = value
    return options


@dataclass(frozen=True)
class Settings:
    """What is trained on what, and how. Two runs of equal settings give equal weights, bit for bit, on one machine
    (``threads`` included: a run notes the number it was given).

    ``Settings(Copy(delay=200), "nnrnn", hidden=128)``; checked when made.
    """

    task: Task
    """What is learned: a name of `engram list tasks`."""
    model: str = "exprnn"
    """A name of `engram list models`."""
    hidden: int = 128
    """N, the hidden units of a layer."""
    layers: int = 1
    """Layers on top of each other."""
    option: tuple[str, ...] = ()
    """Further options of the model, as NAME=VALUE: activation=tanh dropout=0.1."""
    embedding: int | None = None
    """The size of the embedding of symbols; the paper's unless given, 0 for one-hot."""
    steps: int | None = None
    """Optimiser steps; 1000 unless given, one epoch on a data set."""
    epochs: int | None = None
    """Passes through a data set, in place of steps."""
    batch: int = 64
    """Sequences a step."""
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = "adam"
    """adam, adamw, rmsprop (smoothing 0.99) or sgd (momentum 0.9)."""
    lr: float = 2e-3
    """The learning rate."""
    lr_orthogonal: float | None = None
    """The rate of orthogonal parameters; a tenth of lr unless given."""
    weight_decay: float = 0.0
    """Of the parameters that are not orthogonal."""
    clip: float = 1.0
    """Bound on the gradient norm of the parameters that are not orthogonal; 0 for none."""
    patience: int = 0
    """Stop after so many validations without a better loss; 0 never."""
    plateau: int = 0
    """After so many validations without a better loss, multiply the rates by plateau-factor; 0 never."""
    plateau_factor: float = 0.5
    """See plateau."""
    samples: int = 0
    """Train on this many sequences over and over; 0 draws fresh ones each step. Of a data set: the first so many."""
    valid_samples: int | None = None
    """Sequences of a validation; 256 unless given, of a data set all."""
    test_samples: int | None = None
    """Sequences of the test; 1024 unless given, of a data set all."""
    validate_every: int | None = None
    """Steps between validations; 100 unless given, an epoch on a data set. 0 for none."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    probe_every: int = 0
    """Steps between cheap measurements of the memory (lines "probe" of metrics.jsonl); 0 for none."""
    save_every: float = 10.0
    """Seconds between checkpoints; 0 saves at every step. What is computed does not depend on it."""
    tensorboard: bool = False
    """Also write events for TensorBoard."""
    seed: int = 0
    """Of the weights, the sequences and the dropout."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, mps, auto."""
    processes: int = 1
    """Processes that share each batch."""
    threads: int = 0
    """Threads; 0 chooses by the size of the work (1 for small runs), at most torch's own number."""
    precision: Literal["32-true", "64-true", "bf16-mixed"] = "32-true"
    """Of the arithmetic."""

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise DTypeError(f"task must be a task such as engram.tasks.Copy(delay=200), got {self.task!r}")
        if not isinstance(self.model, str) or not (self.model in MODELS or is_outside(self.model)):
            raise unknown("model", self.model, MODELS)
        if is_outside(self.model):
            object.__setattr__(self, "model", full_name(self.model))
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("precision", self.precision, PRECISIONS)
        for name in ("hidden", "layers", "batch", "log_every", "processes"):
            check_size(name, getattr(self, name), most=MOST.get(name, LARGEST))
        for name in ("patience", "plateau", "samples", "probe_every", "seed", "threads"):
            check_size(name, getattr(self, name), least=0, most=MOST.get(name, LARGEST))
        optional = {"embedding": 0, "steps": 0, "epochs": 1, "validate_every": 0, "valid_samples": 1, "test_samples": 1}
        for name, least in optional.items():
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name), least, MOST.get(name, LARGEST))
        if not isinstance(self.tensorboard, bool):
            raise DTypeError(f"tensorboard must be true or false, got {self.tensorboard!r}")
        if not isinstance(self.device, str):
            raise DTypeError(f"device must be a name such as cpu or cuda:1, got {self.device!r}")
        for name in ("lr", "lr_orthogonal", "weight_decay", "clip", "save_every", "plateau_factor"):
            if name != "lr_orthogonal" or self.lr_orthogonal is not None:
                check_number(name, getattr(self, name))
        for name in ("lr", "lr_orthogonal"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < float("inf"):
                raise OptionError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("weight_decay", "clip", "save_every"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 < self.plateau_factor < 1:
            raise OptionError(f"plateau_factor must be between 0 and 1, got {self.plateau_factor}")
        if self.steps is not None and self.epochs is not None:
            raise OptionError(f"give steps or epochs, not both; got {self.steps} and {self.epochs}")
        size = min(self.batch, self.samples or self.batch)
        if size % self.processes:
            raise OptionError(f"batch (and samples) must be a multiple of processes, got {size} and {self.processes}")
        if (self.patience or self.plateau) and (self.validate_every == 0 or not self.task.has_validation):
            raise OptionError("patience and plateau count validations, and this run has none: see --validate-every")
        if self.epochs and not self.samples and not self.task.is_data_set:
            raise OptionError(f"{self.task.name} draws fresh sequences without end: give steps, or samples for epochs")
        if not isinstance(self.option, tuple | list) or not all(isinstance(word, str) for word in self.option):
            raise DTypeError(f"option must be several of NAME=VALUE, a tuple of texts; got {self.option!r:.60}")
        self.model_options()

    def batches(self, split: str, task: Task | None = None) -> Batches:
        """The batches of a split of the task (or of another that is the exam)."""
        task = task or self.task
        given = {"train": self.samples, "valid": self.valid_samples}.get(split, self.test_samples)
        drawn = {"train": 0, "valid": 256}.get(split, 1024)
        size = given if given is not None else 0 if task.is_data_set else drawn
        return task.batches(split, self.batch, self.seed, size)

    def model_options(self) -> dict[str, Any]:
        """``option`` as keyword arguments."""
        return read_options(self.option)

    def core(self) -> Model:
        """What the network is made of."""
        return Model(self.model, self.hidden, self.layers, self.embedding, options=self.model_options())

    def fingerprint(self) -> str:
        """A hash of all that decides what a step computes: a checkpoint goes on under the settings it was made with."""
        free = {
            "steps",
            "epochs",
            "save_every",
            "log_every",
            "probe_every",
            "tensorboard",
            "device",
            "threads",
            "test_samples",
        }
        decisive = {name: value for name, value in self.to_dict().items() if name not in free}
        return seal(decisive)

    def to_dict(self) -> dict[str, Any]:
        """For run.json and TOML: ``from_dict`` gives the same settings back."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {"task": {"name": task_name(self.task), **self.task.options()}, "option": list(self.option)}

    @classmethod
    def from_dict(cls, values: dict[str, Any], allow: Sequence[str] = ()) -> Self:
        """Settings out of run.json or a TOML file. A name that no setting has is refused, and so is code outside
        engram, unless ``allow`` has its package or its file."""
        known = [field.name for field in fields(Settings)]
        for name in values:
            if name not in known:
                raise unknown("setting", name, known)
        task = values.get("task")
        task = {"name": task} if isinstance(task, str) else task
        if not isinstance(task, dict) or not isinstance(task.get("name"), str):
            raise OptionError(f"settings need a task, a name or a table with a name ({', '.join(TASKS)}); got {task!r}")
        for code in (task["name"], values.get("model")):
            if isinstance(code, str):
                check_allowed(code, allow)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        options = {name: tuple(v) if isinstance(v, list) else v for name, v in task.items() if name != "name"}
        return cls(**{**values, **lists, "task": make_task(task["name"], **options)})
