"""The contract of a task."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from engram.imports import FILE_MODULE, load_class, name_of
from engram.tasks._batches import Batches, Fresh, Indexed, Resampled
from engram.tasks._seeds import seeded


class Batch(NamedTuple):
    """B sequences of T steps, and what is asked of them at S steps: S = T, or 1 where only the last step answers.

    inputs: ``(T, B, *input_shape)`` numbers, as ``(T, B, D)``, or images ``(T, B, channels, height, width)``;
        ``(T, B)`` whole numbers below ``task.vocabulary``, symbols, which a network embeds;
        ``(T, B)`` whole numbers below K, rows of ``task.objects()``, where the task has such a table.
    targets: ``(S, B)`` classes, or ``(S, B, C)`` values.
    mask: ``(S, B)``, True where the metrics count.
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Task(ABC):
    """Sequences from a seed, a loss, and how well one can do without memory. Same seed, same batch, on every machine.

    Subclasses are frozen dataclasses whose fields are the options on the command line.
    """

    name: ClassVar[str]
    """What the command line calls it, and the folders of its runs; default: the name of the class."""
    source: ClassVar[str] = ""
    """Where the protocol is from."""
    answer: ClassVar[Literal["every", "last"]] = "every"
    """Whether every step is asked for an output, or the last one only."""
    metric: ClassVar[str] = "accuracy"
    """The metric people quote, a key of :meth:`metrics`."""
    is_data_set: ClassVar[bool] = False
    """Whether the training sequences are a fixed set, not sampled."""
    embedding: ClassVar[int] = 0
    """The size of the embedding (of symbols, or of an image) in the paper, where there is one."""
    context: ClassVar[str] = "off"
    """How the task's papers normalise codes over the steps of a sequence: off, whole, or segmented."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Default settings for this task by flat names, those of its papers: Settings.of and the command line use them."""
    widths: ClassVar[Mapping[str, int]] = {}
    """Default hidden units by the name of a model, where its papers have others than the model's own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):  # not the name of the task that it is derived from
            cls.name = cls.__name__
        if "loss" in vars(cls) and "losses" not in vars(cls):  # the inherited one computes the inherited loss
            cls.losses = Task.losses  # type: ignore[method-assign]

    @property
    def vocabulary(self) -> int:
        """The number of symbols if the inputs are symbols, else 0."""
        return 0

    def spelled(self, symbols: Tensor) -> list[str]:
        """Symbols ``(T,)`` as people read them; default: their numbers."""
        return [str(symbol) for symbol in symbols.tolist()]

    @property
    def has_validation(self) -> bool:
        """Whether there is a split ``"valid"``."""
        return True

    @property
    def input_size(self) -> int:
        """D, the features of the input at a step (of symbols: their number). Give this, or :attr:`input_shape`."""
        return math.prod(self.input_shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input at a step, of any rank: ``(D,)``, or ``(channels, height, width)`` of an image."""
        if type(self).input_size is Task.input_size:
            raise NotImplementedError(f"{type(self).__name__} must say its input_size, or its input_shape")
        return (self.input_size,)

    @property
    def segments(self) -> tuple[int, ...]:
        """The lengths of the parts of a sequence that belong together, such as pairs; default: one part, all steps."""
        return (self.steps,)

    def objects(self) -> Tensor | None:
        """A table ``(K, *input_shape)`` of all that can be seen at a step, where there is one, such as K images.

        The inputs of a batch are then rows of it, and a network encodes each of them once per call, however often a
        batch shows it. The exams of a task have the same table.
        """
        return None

    @property
    @abstractmethod
    def output_size(self) -> int:
        """C, the classes to choose from, or the values to give."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """T, the length of a sequence (of a window, for text)."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """The metric of the best answer that knows the step but not the input."""

    @property
    @abstractmethod
    def memoryless_baseline(self) -> float:
        """The loss of the best answer that knows the step but not the input."""

    @abstractmethod
    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Random sequences (out of the training set, where there is one).

        Args:
            batch_size: B, an int of at least 1.
            generator: a CPU generator; the same state gives the same batch on every machine.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """What is minimised, from outputs ``(S, B, C)``."""

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """:meth:`loss` of E models that are trained as one, ``(E)``.

        Default: one model after the other. A subclass with a faster way defines ``loss`` and this.

        Args:
            outputs: ``(E, S, B, C)``.
            batch: the batches of the models, stacked along a first axis.
        """
        return torch.stack([self.loss(own, Batch(*parts)) for own, *parts in zip(outputs, *batch, strict=True)])

    @abstractmethod
    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """What people quote, by name; an average over the masked steps."""

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """The batches of a split; the k-th is a function of the arguments and k alone.

        Args:
            split: ``"train"``, ``"valid"`` or ``"test"``.
            batch_size: B.
            seed: random seed of the sequences and their order. Default: 0.
            size: how many sequences the split has. Default: 0, no limit: ``train`` samples fresh sequences, and
                data sets give all of theirs.
        """
        if split != "train":
            return Resampled(self.sample, size, batch_size, seed, split)
        if not size:
            return Fresh(self.sample, batch_size, seed)
        whole = self.sample(size, seeded(seed, split))
        return Indexed(lambda rows: Batch(*(part[:, rows] for part in whole)), size, batch_size, seed)

    def exams(self) -> "dict[str, Task]":
        """What a trained network is tested on, by the name of the split; some tasks test on longer sequences too."""
        return {"test": self}

    def options(self) -> dict[str, Any]:
        """The fields, for a settings file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """A task of a file that was read by its path is read again by another process, which has no such module."""
        if type(self).__module__.startswith(FILE_MODULE):
            return _again, (name_of(type(self)), self.options())
        return super().__reduce_ex__(protocol)


def _again(name: str, options: dict[str, Any]) -> Task:
    return load_class(name, Task)(**options)  # type: ignore[type-abstract]
